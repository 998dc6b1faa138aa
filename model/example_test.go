package model_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
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

// A chat in a few lines: the file's template, its sampling, and the answer as it
// comes.
func ExampleConversation() {
	ctx := context.Background()
	m, err := model.OpenBytes(ctx, "sprig", sprig.Model, model.Options{Executor: ref.New(), Context: 256})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	c, err := model.NewConversation(s)
	if err != nil {
		log.Fatal(err)
	}
	for piece, err := range c.Ask(ctx, "What is the capital of France?") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	// Output: The capital of France is Paris.
}

// Several sessions share a model and its weights. Each is used from one goroutine;
// what one says does not depend on the others.
func ExampleModel_NewSession() {
	ctx := context.Background()
	m, err := model.OpenBytes(ctx, "sprig", sprig.Model, model.Options{Executor: ref.New(), Context: 128, Sequences: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	var wg sync.WaitGroup
	answers := make([]string, 3)
	for i, country := range []string{"France", "Spain", "Italy"} {
		s, err := m.NewSession()
		if err != nil {
			log.Fatal(err)
		}
		wg.Go(func() {
			defer s.Close()
			c, err := model.NewConversation(s)
			if err != nil {
				log.Fatal(err)
			}
			for piece, err := range c.Ask(ctx, "What is the capital of "+country+"?") {
				if err != nil {
					log.Fatal(err)
				}
				answers[i] += piece.Text
			}
		})
	}
	wg.Wait()
	for _, a := range answers {
		fmt.Println(a)
	}
	// Output:
	// The capital of France is Paris.
	// The capital of Spain is Madrid.
	// The capital of Italy is Rome.
}

// What a model takes is known before it is loaded, and the largest context that
// fits is found without trying.
func ExampleFit() {
	f, err := gguf.Parse("sprig", sprig.Model) // or gguf.Open
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	o := model.Options{Executor: ref.New()} // or an open device
	positions, memory, err := model.Fit(f, o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d positions, %d MiB, of which %d MiB are weights\n", positions, memory.Total()>>20, memory.Weights>>20)
	// Output: 2048 positions, 27 MiB, of which 2 MiB are weights
}

// A session survives the program: its tokens and their keys and values come back,
// so nothing is evaluated twice.
func ExampleSession_SaveFile() {
	dir, err := os.MkdirTemp("", "tern")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "session")
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
	ids := m.Tokenizer().Encode("The capital of France", token.Options{})
	if _, err := s.Eval(ctx, ids, false); err != nil {
		log.Fatal(err)
	}
	if err := s.SaveFile(path); err != nil {
		log.Fatal(err)
	}
	s.Close()

	s, err = m.RestoreFile(path)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for g, err := range s.Generate(ctx, append(ids, m.Tokenizer().Encode(" is", token.Options{})...), model.Sampling{}, 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d of %d tokens reused: %q\n", g.Reused, g.Prompt, g.Piece)
	}
	// Output: 5 of 6 tokens reused: " P"
}

// Cancelling the context ends an answer, also within a long prompt, at the next
// border between submissions.
func ExampleSession_Generate_cancel() {
	m, err := model.OpenBytes(context.Background(), "sprig", sprig.Model, model.Options{Executor: ref.New(), Context: 512, Chunk: 16})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.Progress = func(done, total int) {
		fmt.Printf("%d of %d tokens\n", done, total)
		if done >= 32 {
			cancel() // as a user's button would
		}
	}
	for _, err := range s.Generate(ctx, make([]int32, 100), model.Sampling{}, 0) {
		fmt.Println(errors.Is(err, context.Canceled))
	}
	// Output:
	// 16 of 100 tokens
	// 32 of 100 tokens
	// true
}
