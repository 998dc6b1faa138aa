package synth

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

func TestMain(m *testing.M) {
	// Without worker threads lavapipe runs tiny dispatches 20 times faster.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	os.Exit(m.Run())
}

// device opens the machine's device.
func device(t *testing.T) graph.Executor {
	t.Helper()
	d, err := runtime.Open(runtime.Options{})
	if errors.Is(err, graph.ErrNoDevice) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// logits of ids, evaluated in pieces of the sizes given, over and over.
func logits(t *testing.T, x graph.Executor, data []byte, act op.Act, ids []int32, pieces ...int) []float32 {
	t.Helper()
	return evaluate(t, model.Options{Executor: x, Activations: act}, data, ids, pieces...)
}

func evaluate(t *testing.T, o model.Options, data []byte, ids []int32, pieces ...int) []float32 {
	t.Helper()
	o.Context = 128
	m, err := model.OpenBytes(t.Context(), "noise", data, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all []float32
	for i := 0; len(ids) > 0; i++ {
		n := min(pieces[i%len(pieces)], len(ids))
		rows, err := s.Eval(t.Context(), ids[:n], true)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			all = append(all, row...)
		}
		ids = ids[n:]
	}
	return all
}

func file(t *testing.T, s Shape) []byte {
	t.Helper()
	data, err := s.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A model of every type, in every activation contract: the device gives the
// reference's logits, at once and piece by piece. TERN_CONFORM=all does so in every
// family.
func TestTypesOnDevice(t *testing.T) {
	x := device(t)
	t.Log("device: ", x.Name())
	ids := Tokens(1, 11, 515)
	shapes, layers := []string{"tiny"}, 1
	if os.Getenv("TERN_CONFORM") == "all" {
		shapes, layers = []string{"tiny", "tiny-moe", "tiny-hybrid", "tiny-hybrid-moe"}, 4
	}
	for i, typ := range Types() {
		for _, shape := range shapes {
			t.Run(shape+":"+typ, func(t *testing.T) {
				s, err := Lookup(shape + ":" + typ)
				if err != nil {
					t.Fatal(err)
				}
				s.Layers = layers
				data := file(t, s)
				for j, act := range []op.Act{op.I8, op.F16, op.F32} {
					if testing.Short() && (i+j)%3 != 0 {
						continue
					}
					want := logits(t, ref.New(), data, act, ids, len(ids))
					if !slices.Equal(logits(t, x, data, act, ids, len(ids)), want) {
						t.Errorf("%v: the logits differ", act)
					}
					if !slices.Equal(logits(t, x, data, act, ids, 1, 5, 2), want) {
						t.Errorf("%v: the logits differ piece by piece", act)
					}
				}
			})
		}
	}
}

// The same ternary weights give the same logits however they are stored, also in one
// stack of matrices.
func TestSameLogits(t *testing.T) {
	ids := Tokens(2, 5, 515)
	files := map[string][]byte{}
	for _, typ := range []string{"q2_0", "q2_0_g128", "pq2_0", "tq2_0", "ptq1_0", "tq1_0"} {
		s, err := Lookup("tiny:" + typ)
		if err != nil {
			t.Fatal(err)
		}
		s.Layers, s.Join = 1, 4
		files[typ] = file(t, s)
	}
	files["mixed"] = mixed(t, files["ptq1_0"], files["q2_0"], files["tq2_0"])
	for _, act := range []op.Act{op.I8, op.F32} {
		want := logits(t, ref.New(), files["q2_0"], act, ids, len(ids))
		for typ, data := range files {
			if !slices.Equal(logits(t, ref.New(), data, act, ids, len(ids)), want) {
				t.Errorf("%s, %v: the logits differ from those of q2_0", typ, act)
			}
		}
	}
	t.Run("device", func(t *testing.T) {
		x := device(t)
		want := logits(t, ref.New(), files["q2_0"], op.I8, ids, len(ids))
		for typ, data := range files {
			if !slices.Equal(logits(t, x, data, op.I8, ids, len(ids)), want) {
				t.Errorf("%s: the logits differ", typ)
			}
		}
	})
}

// mixed takes the tensors of a model from files in turn.
func mixed(t *testing.T, files ...[]byte) []byte {
	t.Helper()
	var open []*gguf.File
	for _, data := range files {
		f, err := gguf.Parse("mixed", data)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, f)
	}
	var specs []gguf.Spec
	var contents [][]byte
	for i := range open[0].Tensors {
		w := open[i%len(open)].Tensors[i]
		specs = append(specs, gguf.Spec{Name: w.Name, Dims: w.Dims, Type: w.Type})
		contents = append(contents, w.Data())
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, open[0].Meta, specs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(bytes.Join(contents, nil)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A cache of fewer bits gives the same logits on the device, for the prompt at once and
// in pieces, and logits near those of a cache of halves.
func TestCaches(t *testing.T) {
	x := device(t)
	s, err := Lookup("tiny-hybrid")
	if err != nil {
		t.Fatal(err)
	}
	data, ids := file(t, s), Tokens(3, 70, 515)
	halves := evaluate(t, model.Options{Executor: ref.New()}, data, ids, len(ids))
	var top float32
	for _, v := range halves {
		top = max(top, v, -v)
	}
	for _, c := range []struct {
		keys, values op.CacheType
		off          float32 // from halves, of the largest logit
	}{{op.CacheQ8_0, op.CacheQ8_0, 0.05}, {op.CacheQ4_0, op.CacheF16, 0.3}, {op.CacheF16, op.CacheQ4_0, 0.3}, {op.CacheQ8_0, op.CacheQ4_0, 0.3}} {
		o := model.Options{Executor: ref.New(), CacheKeys: c.keys, CacheValues: c.values}
		want := evaluate(t, o, data, ids, len(ids))
		var off float32
		for i := range want {
			off = max(off, want[i]-halves[i], halves[i]-want[i])
		}
		if off == 0 || off > c.off*top {
			t.Errorf("%v/%v: logits are off by up to %g of %g", c.keys, c.values, off, top)
		}
		o.Executor = x
		if !slices.Equal(evaluate(t, o, data, ids, len(ids)), want) {
			t.Errorf("%v/%v: the logits differ", c.keys, c.values)
		}
		if !slices.Equal(evaluate(t, o, data, ids, 1, 60, 3), want) {
			t.Errorf("%v/%v: the logits differ piece by piece", c.keys, c.values)
		}
	}
}
