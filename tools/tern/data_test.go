package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/testdata/sprig"
)

func TestInspect(t *testing.T) {
	path := modelFile(t)
	for _, args := range [][]string{{"inspect", "--json"}, {"inspect", "--json", path}, {"inspect", "--json", "-m", path}} {
		var r inspection
		decode(t, prepare(t, "", args...).exits(t, 0).out.Bytes(), &r)
		if r.Params != 8395008 || len(r.Tensors) != 90 || len(r.Totals) != 2 || r.Memory == nil {
			t.Fatalf("%q: %d parameters, %d tensors, %d types, memory %v", args, r.Params, len(r.Tensors), len(r.Totals), r.Memory)
		}
		// 2 kv heads of 128 halves, keys and values, in 8 layers.
		if got := r.Memory.CachePerPosition; got != 8*2*2*128*2 {
			t.Errorf("%d bytes of cache a position", got)
		}
		if m := r.Memory; m.Cache != uint64(m.Context)*m.CachePerPosition || m.Scratch == 0 || m.Total < m.Weights+m.Cache+m.Scratch {
			t.Errorf("memory %+v", m)
		}
	}
	var small inspection
	decode(t, prepare(t, "", "inspect", "--json", "-c", "128").exits(t, 0).out.Bytes(), &small)
	if small.Memory.Context != 128 {
		t.Errorf("memory for 128 positions: %+v", small.Memory)
	}
	text := prepare(t, "", "inspect").exits(t, 0).out.String()
	for _, part := range []string{"general.architecture", `"qwen3"`, "...] (2048)", "blk.7.ffn_down.weight", "768 x 256", "a position"} {
		if !strings.Contains(text, part) {
			t.Errorf("the text lacks %q", part)
		}
	}
	g := prepare(t, "", "inspect", "--graph", "3").noVulkan().exits(t, 0).out.String()
	if !strings.Contains(g, "blk.7.ffn_down") || strings.Count(g, "\n") < 80 {
		t.Errorf("the graph is\n%s", g)
	}
	if full := prepare(t, "", "inspect", "--full").exits(t, 0).out.Len(); full < 3*len(text) {
		t.Errorf("--full has %d bytes, without it there are %d", full, len(text))
	}
}

func TestTokenize(t *testing.T) {
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"--ids", "--special", "<|im_start|>user\nWho are you?<|im_end|>"}, "2040,278,198,795,439,427,30,2041\n"},
		{"Who are you?", []string{"--ids"}, "795,439,427,30\n"},
		{"", []string{" you?"}, "   427  \" you\"\n    30  \"?\"\n"},
		{"", []string{"--ids", ""}, "\n"},
	} {
		r := prepare(t, c.stdin, append([]string{"tokenize"}, c.args...)...).noVulkan().exits(t, 0)
		if r.out.String() != c.want {
			t.Errorf("tokenize %q says %q, want %q", c.args, r.out.String(), c.want)
		}
	}
	var list []piece
	decode(t, prepare(t, "", "tokenize", "--json", "--special", "<|im_end|>\xf0\x9f\x8c\xb3").exits(t, 0).out.Bytes(), &list)
	if len(list) < 2 || list[0].Type != "control" || list[0].ID != 2041 || list[0].Piece != "<|im_end|>" {
		t.Fatalf("pieces %+v", list)
	}
	var joined []byte
	for _, p := range list[1:] {
		if p.Bytes == nil {
			joined = append(joined, p.Piece...)
		}
		for _, b := range p.Bytes {
			joined = append(joined, byte(b))
		}
	}
	if string(joined) != "🌳" {
		t.Errorf("the pieces join to %q", joined)
	}
}

func TestLogits(t *testing.T) {
	var chats struct {
		Cases []struct {
			PromptIDs []int32 `json:"prompt_ids"`
		}
	}
	decode(t, sprig.Golden, &chats)
	ids := chats.Cases[0].PromptIDs
	dir := t.TempDir()
	path := filepath.Join(dir, "out.f32")
	var sums [2]string
	for i, device := range []string{"auto", "reference"} {
		var r struct {
			N, Vocab int
			SHA256   string
		}
		c := prepare(t, "", "logits", "--activations", "f32", "--device", device, "--ids", joinIDs(ids), "-o", path)
		decode(t, c.exits(t, 0).out.Bytes(), &r)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if sums[i] = hex.EncodeToString(sum[:]); sums[i] != r.SHA256 || r.N != len(ids) || r.Vocab != 2048 || len(data) != 4*r.N*r.Vocab {
			t.Fatalf("%d bytes with hash %s, told %+v", len(data), sums[i], r)
		}
		want, err := os.ReadFile("../../testdata/sprig/golden-logits.f32")
		if err != nil {
			t.Fatal(err)
		}
		last := data[4*(r.N-1)*r.Vocab:]
		for j := range r.Vocab {
			got, want := float(last[4*j:]), float(want[4*j:])
			if math.Abs(float64(got-want)) > 5e-3 {
				t.Fatalf("logit %d is %g, transformers give %g", j, got, want)
			}
		}
	}
	if sums[0] != sums[1] {
		t.Error("the logits of the device are not those of the reference")
	}

	// Nothing is left of a file that cannot be written whole.
	prepare(t, "", "logits", "--ids", "1,2048", "-o", filepath.Join(dir, "bad.f32")).exits(t, exitFailure).complains(t, "2048")
	prepare(t, "", "logits", "-c", "2", "--ids", "1,2,3", "-o", filepath.Join(dir, "bad.f32")).exits(t, exitFailure).complains(t, "context")
	prepare(t, "", "logits", "--ids", "1", "-o", filepath.Join(dir, "none", "x.f32")).exits(t, exitUsage).complains(t, "none")
	prepare(t, "", "logits", "--ids", "1", "-o", dir).exits(t, exitFailure).complains(t, dir, "not a regular file")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func float(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

// wrongKernel writes a folder with one kernel in which the first product has
// become a sum.
func wrongKernel(t *testing.T, name string) string {
	t.Helper()
	k, ok := spirv.Lookup(name)
	if !ok {
		t.Fatalf("no kernel %s", name)
	}
	const mul, add = 133, 129 // OpFMul, OpFAdd
	words := k.Words()
	for i := 5; i < len(words); i += int(words[i] >> 16) {
		if words[i]&0xffff == mul {
			words[i] = words[i]&^0xffff | add
			break
		}
	}
	data, err := binary.Append(nil, binary.LittleEndian, words)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name+".spv"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCompare(t *testing.T) {
	c := prepare(t, "", "compare", "--tokens", "5").exits(t, 0)
	if !strings.Contains(c.out.String(), " nodes, ") || !strings.HasSuffix(c.out.String(), " words equal\n") {
		t.Errorf("compare says %q", c.out.String())
	}
	wrong := wrongKernel(t, "silu_mul_i8")
	c = prepare(t, "", "compare", "--tokens", "5", "--kernels", wrong).exits(t, exitFailure)
	if out := c.out.String(); !strings.HasPrefix(out, "node ") || !strings.Contains(out, "blk.0.ffn_silu_mul (silu_mul_i8)") || strings.Count(out, "\n") != 1 {
		t.Errorf("compare says %q", out)
	}
	all := prepare(t, "", "compare", "--tokens", "5", "--kernels", wrong, "--all").exits(t, exitFailure)
	if n := strings.Count(all.out.String(), "ffn_silu_mul (silu_mul_i8)"); n != 8 || strings.Count(all.out.String(), "\n") != 9 {
		t.Errorf("with --all, %d nodes differ, want one a layer:\n%s", n, all.out.String())
	}
	var first int
	if _, err := fmt.Sscanf(c.out.String(), "node %d", &first); err != nil {
		t.Fatal(err)
	}
	next := prepare(t, "", "compare", "--tokens", "5", "--kernels", wrong, "--from", fmt.Sprint(first+1)).exits(t, exitFailure)
	if !strings.Contains(next.out.String(), "blk.1.ffn_silu_mul") {
		t.Errorf("from the next node on, compare says %q", next.out.String())
	}
	prepare(t, "", "compare", "--from", "100000").exits(t, exitUsage)
}

func TestVerify(t *testing.T) {
	goldens, err := filepath.Abs("../../testdata/goldens")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"-m", filepath.Join(goldens, "qwen3moe.gguf")}, {"-m", filepath.Join(goldens, "qwen35-rep2.gguf")}} {
		c := prepare(t, "", append([]string{"verify"}, args...)...).exits(t, 0)
		if out := c.out.String(); !strings.HasSuffix(out, "| right\n") || strings.Count(out, "\n") != 1 || !strings.Contains(out, "| arithmetic ") {
			t.Errorf("verify %q says %q", args, out)
		}
	}
	c := prepare(t, "", "verify", "--kernels", wrongKernel(t, "silu_mul_i8")).exits(t, exitFailure)
	if !strings.HasSuffix(c.out.String(), "| WRONG\n") || !strings.Contains(c.err.String(), "tern: the logits are wrong") {
		t.Errorf("with a wrong kernel verify says %q and %q", c.out.String(), c.err.String())
	}
}

func TestBench(t *testing.T) {
	small := []string{"bench", "-p", "16", "-n", "4", "-d", "0,8", "-r", "2"}
	var list []benchResult
	decode(t, prepare(t, "", append(small, "-o", "json")...).exits(t, 0).out.Bytes(), &list)
	var tests []string
	for _, r := range list {
		tests = append(tests, r.test())
		if r.AvgTS <= 0 || len(r.SamplesNS) != 2 || r.Params != 8395008 || r.Gen > 0 && r.GBS <= 0 {
			t.Errorf("result %+v", r)
		}
	}
	if got := strings.Join(tests, ", "); got != "pp16, tg4, pp16 @ d8, tg4 @ d8" {
		t.Errorf("tests are %s", got)
	}
	md := prepare(t, "", append(small, "--device", "reference", "--peak", "100")...).exits(t, 0).out.String()
	if !strings.HasPrefix(md, "| model | size | params | device | test | t/s |") || strings.Count(md, "\n| qwen3 8.40M Q2_0 | ") != 4 {
		t.Errorf("the table is\n%s", md)
	}
	rows, err := csv.NewReader(strings.NewReader(prepare(t, "", append(small, "-o", "csv")...).exits(t, 0).out.String())).ReadAll()
	if err != nil || len(rows) != 5 || len(rows[0]) != len(rows[1]) || rows[0][0] != "build_commit" {
		t.Errorf("csv: %v, %v", rows, err)
	}
	before := filepath.Join(t.TempDir(), "before.json")
	streams := []string{"bench", "-p", "0", "-n", "4", "-d", "8", "-b", "1,3", "-r", "1"}
	if err := os.WriteFile(before, prepare(t, "", append(streams, "-o", "json")...).exits(t, 0).out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	decode(t, prepare(t, "", append(streams, "-o", "json", "--compare", before)...).exits(t, 0).out.Bytes(), &list)
	if len(list) != 2 || list[1].test() != "tg4 x 3 @ d8" || list[0].Ratio <= 0 || list[1].Ratio <= 0 {
		t.Errorf("three streams compared with an earlier run: %+v", list)
	}
	products := prepare(t, "", "bench", "--products", "--shape", "tiny", "-p", "1,3").exits(t, 0).out.String()
	if !strings.Contains(products, "mul_mat_q2_0_i8\n") || strings.Count(products, "1024 x 256") < 4 {
		t.Errorf("products:\n%s", products)
	}
	prepare(t, "", "bench", "--products", "--shape", "tiny", "-p", "1", "--kernels", wrongKernel(t, "mul_mat_q2_0_i8")).exits(t, exitFailure).complains(t, "the reference has")
	prepare(t, "", "bench", "--products", "--shape", "tiny-hybrid").exits(t, exitFailure).complains(t, "dense model")
	prepare(t, "", "bench", "--compare", "../../README.md").exits(t, exitFailure).complains(t, "bench -o json")
	prepare(t, "", "bench", "-p", "4096").exits(t, exitFailure).complains(t, "2048")
	prepare(t, "", "bench", "--ops", "--device", "reference").exits(t, exitFailure).complains(t, "timestamps")
}
