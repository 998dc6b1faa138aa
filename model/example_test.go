package model_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/sprig"
)

// The best Vulkan device answers, or the Go reference where there is none. A file
// on disk is opened by model.Open.
func Example() {
	var x graph.Executor
	x, err := runtime.Open(runtime.Options{})
	if errors.Is(err, graph.ErrNoDevice) {
		x, err = ref.New(), nil
	}
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	ctx := context.Background()
	m, err := model.OpenBytes(ctx, "sprig", sprig.Model, model.Options{Executor: x, Context: 256})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	prompt := m.Tokenizer().Encode("<|im_start|>user\nWhat is 7 times 8?<|im_end|>\n<|im_start|>assistant\n", token.Options{ParseSpecial: true})
	var text token.Decoder // joins characters whose bytes are spread over tokens
	for g, err := range s.Generate(ctx, prompt, model.Sampling{}, 64) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(text.Write(g.Piece))
	}
	fmt.Println(text.Flush())
	fmt.Println(s.Finish())
	// Output:
	// 7 times 8 is 56.
	// stop
}

// A prompt that begins like the session's tokens is evaluated only from there on.
func ExampleSession_Generate() {
	ctx := context.Background()
	m, err := model.OpenBytes(ctx, "sprig", sprig.Model, model.Options{Executor: ref.New(), Context: 128})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	encode := func(text string) []int32 { return m.Tokenizer().Encode(text, token.Options{ParseSpecial: true}) }
	for _, prompt := range []string{"The capital of France", "The capital of France is"} {
		for g, err := range s.Generate(ctx, encode(prompt), model.Sampling{}, 1) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%d of %d tokens reused: %q\n", g.Reused, g.Prompt, g.Piece)
		}
	}
	// Output:
	// 0 of 5 tokens reused: " is"
	// 5 of 6 tokens reused: " P"
}
