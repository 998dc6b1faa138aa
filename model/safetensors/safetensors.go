// Package safetensors reads the tensors of Hugging Face folders: one file, or
// several with an index. Files are mapped, not copied, and all sizes in them are
// checked against the file.
package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/edsrzf/mmap-go"

	"github.com/ternvk/tern/runtime/mapped"
)

// Tensor is a tensor of a folder.
type Tensor struct {
	Name  string
	Type  string   // "F32", "BF16" and so on
	Shape []uint64 // outermost first
	Data  []byte   // a view of the file, not to be used after Close
}

// Folder is an open folder.
type Folder struct {
	Tensors map[string]*Tensor
	mapped  []mmap.MMap
}

const (
	single = "model.safetensors"
	index  = "model.safetensors.index.json"
)

// maxHeader bounds the header of a file, bytes.
const maxHeader = 100 << 20

// sizes are the bytes of an element.
var sizes = map[string]uint64{
	"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
	"F8_E4M3": 1, "F8_E5M2": 1,
}

// Open maps the files of the folder dir: model.safetensors, or those that
// model.safetensors.index.json lists. The caller closes it.
func Open(dir string) (*Folder, error) {
	f := &Folder{Tensors: map[string]*Tensor{}}
	if err := f.open(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Folder) open(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, index))
	if errors.Is(err, fs.ErrNotExist) {
		return f.add(filepath.Join(dir, single))
	} else if err != nil {
		return err
	}
	var list struct {
		Weights map[string]string `json:"weight_map"`
	}
	path := filepath.Join(dir, index)
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var files []string
	for _, name := range list.Weights {
		if !filepath.IsLocal(name) || filepath.Base(name) != name {
			return fmt.Errorf("%s: %q is not the name of a file in the folder", path, name)
		}
		files = append(files, name)
	}
	slices.Sort(files)
	for _, name := range slices.Compact(files) {
		if err := f.add(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for name := range list.Weights {
		if f.Tensors[name] == nil {
			return fmt.Errorf("%s: tensor %s is in none of the files", path, name)
		}
	}
	return nil
}

// add maps a file.
func (f *Folder) add(path string) error {
	st, err := os.Stat(path) // opening a pipe would wait for its writer
	if err != nil {
		return err
	}
	if st.Size() < 10 || st.Size() > math.MaxInt || !st.Mode().IsRegular() {
		return fmt.Errorf("%s: not a safetensors file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	m, err := mmap.Map(file, mmap.RDONLY, 0)
	if err != nil {
		return fmt.Errorf("%s: map: %w", path, err)
	}
	f.mapped = append(f.mapped, m)
	if err := mapped.Read(func() error { return f.parse(m) }); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// parse reads the header: its length in eight bytes, then JSON.
func (f *Folder) parse(data []byte) error {
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeader || n > uint64(len(data))-8 {
		return errors.New("not a safetensors file, or truncated")
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		return fmt.Errorf("not a safetensors file: %w", err)
	}
	body := data[8+n:]
	for name, raw := range header {
		if name == "__metadata__" {
			continue
		}
		var e struct {
			Type    string    `json:"dtype"`
			Shape   []uint64  `json:"shape"`
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("tensor %s: %w", name, err)
		}
		size, ok := sizes[e.Type]
		if !ok {
			return fmt.Errorf("tensor %s: type %q is not known", name, e.Type)
		}
		for _, d := range e.Shape {
			if d != 0 && size > math.MaxInt64/d {
				return fmt.Errorf("tensor %s: shape %v is too large", name, e.Shape)
			}
			size *= d
		}
		from, to := e.Offsets[0], e.Offsets[1]
		if from > to || to > uint64(len(body)) || to-from != size {
			return fmt.Errorf("tensor %s: %d bytes for the shape %v of %s do not lie at %d to %d of %d", name, size, e.Shape, e.Type, from, to, len(body))
		}
		if f.Tensors[name] != nil {
			return fmt.Errorf("tensor %s stands in two files", name)
		}
		f.Tensors[name] = &Tensor{name, e.Type, e.Shape, body[from:to:to]}
	}
	return nil
}

// Close unmaps the files.
func (f *Folder) Close() error {
	var err error
	for _, m := range f.mapped {
		err = errors.Join(err, m.Unmap())
	}
	f.mapped, f.Tensors = nil, nil
	return err
}
