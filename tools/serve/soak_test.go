package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ternvk/tern/testdata/sprig"
)

// soakQuestions are chats of several kinds, some of which begin alike.
func soakQuestions() (list []dict) {
	for i, text := range []string{
		"What is the capital of France?", "What is 7 times 8?", haiku, "Who are you?", "Describe Peru as JSON.", "Hello!",
		"Which country has Nairobi as its capital?", "What is 23 + 45?", "What is Q2_0?", "Tell me a story.",
	} {
		body := merge(user(text), dict{"max_tokens": 12 + 3*(i%4)})
		switch i % 5 {
		case 1:
			body = merge(body, dict{"temperature": 1.2, "seed": i})
		case 2:
			body = merge(body, dict{"logprobs": true, "top_logprobs": 2})
		case 3:
			body["messages"] = append([]any{dict{"role": "system", "content": "Answer briefly."}}, body["messages"].([]any)...)
		case 4:
			body = merge(body, dict{"stop": []string{"Peru", "story"}})
		}
		list = append(list, body)
	}
	return list
}

// ask streams an answer and returns its text and log probabilities as far as it was
// read: up to the given number of chunks. whole tells that it came to its end.
func (c *client) ask(body dict, chunks int) (text string, queued float64, whole bool, err error) {
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	resp, err := c.send(ctx, "POST", "/v1/chat/completions", merge(body, dict{"stream": true}))
	if err != nil {
		return "", 0, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", 0, false, fmt.Errorf("status %s", resp.Status)
	}
	var b strings.Builder
	for lines := bufio.NewScanner(resp.Body); chunks > 0 && lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case data == "[DONE]":
			return b.String(), queued, true, nil
		}
		var chunk struct {
			Error   any
			Timings *struct {
				Queue float64 `json:"queue_ms"`
			}
			Choices []struct {
				Delta    struct{ Content string }
				Logprobs any
				Finish   string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Error != nil {
			return "", 0, false, fmt.Errorf("chunk %s: %v", data, err)
		}
		for _, ch := range chunk.Choices {
			if b.WriteString(ch.Delta.Content); ch.Logprobs != nil {
				fmt.Fprint(&b, ch.Logprobs)
			}
			b.WriteString(ch.Finish)
		}
		if chunk.Timings != nil {
			queued = chunk.Timings.Queue
		}
		chunks--
	}
	return b.String(), queued, false, nil
}

// Many streaming clients at once, of which some hang up anywhere: every answer, or as
// much as was read of it, is what a single client gets, bit for bit. Nothing leaks.
// TERN_SOAK is how long 64 clients go on, such as 10m; without it, a few do for a
// moment.
func TestSoak(t *testing.T) {
	clients, duration := 8, 4*time.Second
	if v := os.Getenv("TERN_SOAK"); v != "" {
		var err error
		if duration, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
		clients = 64
	}
	x := device(t)
	t.Cleanup(func() { x.Close() })
	c := serveOptions(t, options(t, x, sprig.Model, func(o *Options) {
		o.Context, o.Parallel, o.Queue, o.MaxWait = 256, max(4, clients/4), 2*clients, time.Hour
	}))
	questions := soakQuestions()
	if clients < 64 {
		questions = questions[:5]
	}
	var want []string
	for _, q := range questions {
		text, _, whole, err := c.ask(q, 1<<20)
		if err != nil || !whole {
			t.Fatalf("%v: %v", q, err)
		}
		want = append(want, text)
	}
	var mu sync.Mutex
	var waits []float64
	var done, cancelled int
	var wg sync.WaitGroup
	end := time.Now().Add(duration)
	memory := make(chan uint64, 1000)
	go func() {
		defer close(memory)
		for time.Now().Before(end) {
			memory <- inUse()
			time.Sleep(duration / 20)
		}
	}()
	for i := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for time.Now().Before(end) {
				k, chunks := r.IntN(len(questions)), 1<<20
				if r.IntN(4) == 0 {
					chunks = r.IntN(15)
				}
				text, queued, whole, err := c.ask(questions[k], chunks)
				if err != nil {
					t.Error(err)
					return
				}
				if whole && text != want[k] || !strings.HasPrefix(want[k], text) {
					t.Errorf("client %d, question %d:\n   got %q\nsingly %q", i, k, text, want[k])
					return
				}
				mu.Lock()
				if whole {
					done++
					waits = append(waits, queued)
				} else {
					cancelled++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	c.waitIdle()
	var heap []uint64
	for m := range memory {
		heap = append(heap, m)
	}
	slices.Sort(waits)
	if done == 0 || cancelled == 0 {
		t.Fatalf("%d answers, %d cancelled", done, cancelled)
	}
	st := c.engine.Status()
	t.Logf("%d clients for %s: %d answers, %d cancelled, queue wait p50 %.0f ms, p99 %.0f ms", clients, duration, done, cancelled,
		waits[len(waits)/2], waits[len(waits)*99/100])
	t.Logf("heap in MiB over time: %d; cache pages %d of %d free, %d sequences kept, %d goroutines", mib(heap), st.Room.Pages, st.Room.AllPages, st.Idle, goruntime.NumGoroutine())
	if half := len(heap) / 2; clients == 64 {
		early, late := slices.Max(heap[1:half]), slices.Max(heap[half:])
		if late > early+early/4+8<<20 {
			t.Errorf("the heap grew from %d to %d MiB", early>>20, late>>20)
		}
	}
	if n := goruntime.NumGoroutine(); n > 60+2*clients {
		t.Errorf("%d goroutines are left", n)
	}
}

// inUse is the heap that is reachable.
func inUse() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

func mib(list []uint64) (out []uint64) {
	for _, v := range list {
		out = append(out, v>>20)
	}
	return out
}
