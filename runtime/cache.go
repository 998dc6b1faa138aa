package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

// cacheDir is the folder for what is kept between runs, "" for none.
func (d *Device) cacheDir() string {
	if d.plan.Disabled("cache") {
		return ""
	}
	dir := d.opts.CacheDir
	if dir == "" {
		dir = os.Getenv(CacheVariable)
	}
	switch dir {
	case "off":
		return ""
	case "":
		base, err := os.UserCacheDir()
		if err != nil {
			return "" // no home: run without
		}
		return filepath.Join(base, "tern")
	}
	return dir
}

// cacheFile names a file that is valid for this device, driver and set of
// kernels, "" when nothing is kept.
func (d *Device) cacheFile(kind string) string {
	dir := d.cacheDir()
	if dir == "" {
		return ""
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%x %x %v %x %s %s %s %+v", d.plan.VendorID, d.plan.DeviceID, d.plan.UUID,
		d.plan.DriverVersion, d.plan.DriverName, d.plan.DriverInfo, spirv.SetHash(), d.plan.Controls()))
	return filepath.Join(dir, kind+"-"+hex.EncodeToString(key[:12]))
}

// saveFile writes a file beside the old one and renames it, so that readers
// never see half a file.
func saveFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// A cache file is the driver's data behind its SHA-256: drivers need not
// survive damaged data.
func (ps *pipelines) load(d *Device) error {
	ps.file = d.cacheFile("pipelines")
	var data []byte
	if ps.file != "" {
		file, err := os.ReadFile(ps.file)
		if err == nil && len(file) > sha256.Size {
			if sum := sha256.Sum256(file[sha256.Size:]); string(sum[:]) == string(file[:sha256.Size]) {
				data = file[sha256.Size:]
			}
		}
	}
	ps.loaded = len(data)
	info := &vk.PipelineCacheCreateInfo{InitialDataSize: uintptr(len(data)), PInitialData: unsafe.Pointer(unsafe.SliceData(data))}
	var err error
	if ps.cache, err = d.vk.CreatePipelineCache(info); err != nil && data != nil {
		ps.loaded = 0
		ps.cache, err = d.vk.CreatePipelineCache(&vk.PipelineCacheCreateInfo{})
	}
	return d.failed("pipeline cache", err)
}

// save writes the cache when it has grown.
func (ps *pipelines) save(d *Device) {
	if ps.file == "" || ps.cache == 0 || len(ps.ready) == 0 || d.lost != nil {
		return
	}
	data, err := d.vk.GetPipelineCacheData(ps.cache)
	if err != nil || len(data) == ps.loaded {
		return
	}
	sum := sha256.Sum256(data)
	_ = saveFile(ps.file, append(sum[:], data...)) // it only saves time
	ps.loaded = len(data)
}
