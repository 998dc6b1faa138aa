package qwen35

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/gguf"
)

// meta is a good configuration with some keys changed, or removed if nil.
func meta(t *testing.T, change map[string]any) *gguf.File {
	t.Helper()
	keys := map[string]any{
		"block_count": uint32(8), "context_length": uint32(4096), "embedding_length": uint32(64), "feed_forward_length": uint32(128),
		"attention.head_count": uint32(4), "attention.head_count_kv": uint32(2), "attention.key_length": uint32(256),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": float32(1e7), "rope.dimension_count": uint32(64),
		"rope.dimension_sections": []int32{11, 11, 10, 0},
		"ssm.conv_kernel":         uint32(4), "ssm.state_size": uint32(128), "ssm.group_count": uint32(2), "ssm.time_step_rank": uint32(6), "ssm.inner_size": uint32(768),
	}
	for k, v := range change {
		keys[k] = v
	}
	kvs := []gguf.KV{{Key: "general.architecture", Value: Dense}}
	for k, v := range keys {
		if v != nil {
			kvs = append(kvs, gguf.KV{Key: Dense + "." + k, Value: v})
		}
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, kvs, []gguf.Spec{{Name: "token_embd.weight", Dims: []uint64{64, 2}, Type: gguf.F32}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 512)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse("test", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLayerKinds(t *testing.T) {
	kinds := func(change map[string]any) string {
		m, err := Read(meta(t, change), Dense)
		if err != nil {
			t.Fatal(err)
		}
		s := ""
		for i := range m.Layers {
			s += map[bool]string{true: "r", false: "a"}[m.HasState(i)]
		}
		return s
	}
	for want, change := range map[string]map[string]any{
		"rrrarrra": nil,
		"rararara": {"full_attention_interval": uint32(2)},
		"aaaaarrr": {"attention.recurrent_layers": []bool{false, false, false, false, false, true, true, true}},
		"raaaaaaa": {"attention.recurrent_layers": []int32{1, 0, 0, 0, 0, 0, 0, 0}},
		"rrrarrr":  {"nextn_predict_layers": uint32(1)},
	} {
		if got := kinds(change); got != want {
			t.Errorf("%v: layers %s, want %s", change, got, want)
		}
	}
}

func TestBadConfigurations(t *testing.T) {
	for key, value := range map[string]any{
		"ssm.conv_kernel":            uint32(1),
		"ssm.state_size":             uint32(96),
		"ssm.group_count":            uint32(4),
		"ssm.time_step_rank":         nil,
		"ssm.inner_size":             uint32(512),
		"rope.dimension_count":       uint32(512),
		"rope.dimension_sections":    []int32{11, 11, 8, 0}, // pair 29 belongs to none
		"full_attention_interval":    uint32(0),
		"attention.recurrent_layers": []bool{true},
		"nextn_predict_layers":       uint32(8),
		"attention.head_count":       uint32(3),
		"feed_forward_length":        uint32(100),
		"attention.key_length":       uint32(80),
		"context_length":             "long",
		"rope.scaling.type":          "linear",
	} {
		if _, err := Read(meta(t, map[string]any{key: value}), Dense); err == nil {
			t.Errorf("%s = %v was accepted", key, value)
		} else if !strings.Contains(err.Error(), strings.TrimPrefix(key, "ssm.")) && !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %v: %q does not name it", key, value, err)
		}
	}
}
