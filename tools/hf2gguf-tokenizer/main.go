// Command hf2gguf-tokenizer turns the tokenizer.json of a Qwen model into a GGUF
// file that holds nothing but its tokenizer, for tests and for models that are
// put together by hand.
//
//	hf2gguf-tokenizer [-eos '<|im_end|>'] [-pad '<|endoftext|>'] tokenizer.json out.gguf
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
)

func main() {
	eos := flag.String("eos", "<|im_end|>", "text of the token that ends a turn")
	pad := flag.String("pad", "<|endoftext|>", "text of the padding token")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: hf2gguf-tokenizer [-eos TOKEN] [-pad TOKEN] tokenizer.json out.gguf")
		os.Exit(2)
	}
	if err := convert(flag.Arg(0), flag.Arg(1), *eos, *pad); err != nil {
		fmt.Fprintln(os.Stderr, "hf2gguf-tokenizer:", err)
		os.Exit(1)
	}
}

func convert(in, out, eos, pad string) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	v, err := token.ReadHF(data)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	tok, err := token.New(v)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	for _, s := range []struct {
		text string
		id   *int32
	}{{eos, &v.EOS}, {pad, &v.Pad}} {
		id, ok := tok.Find(s.text)
		if !ok {
			return fmt.Errorf("%s: there is no token %q", in, s.text)
		}
		*s.id = id
	}
	meta := []gguf.KV{{Key: "general.architecture", Value: "tokenizer"}}
	for _, e := range v.Metadata() {
		meta = append(meta, gguf.KV(e))
	}
	w, err := gguf.Create(out, meta, nil)
	if err != nil {
		return err
	}
	return w.Close()
}
