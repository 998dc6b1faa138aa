package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// entry is a file of an archive: what lies at path, or data.
type entry struct {
	name string
	path string
	data []byte
	mode os.FileMode
}

func (e entry) content() ([]byte, error) {
	if e.path == "" {
		return e.data, nil
	}
	return os.ReadFile(e.path)
}

// archive writes a .zip or a .tar.gz, whole or not at all.
func archive(path string, files []entry, stamp time.Time) (err error) {
	f, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(path + ".part")
		}
	}()
	write := writeTar
	if strings.HasSuffix(path, ".zip") {
		write = writeZip
	}
	if err = errors.Join(write(f, files, stamp), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

func writeTar(w io.Writer, files []entry, stamp time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range files {
		data, err := e.content()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(data)), ModTime: stamp, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func writeZip(w io.Writer, files []entry, stamp time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range files {
		data, err := e.content()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: stamp}
		h.SetMode(e.mode)
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}
