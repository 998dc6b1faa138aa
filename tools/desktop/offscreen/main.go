// Command offscreen measures how the desktop example's pictures fare beside a model that
// decodes on the same device: it draws one every 16.7 ms without a window, while tokens are
// generated without a pause, and prints the times from when a picture was due to when it was
// done. It needs no window system and no cgo.
package main

import (
	"context"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/tools/desktop/frame"
	"github.com/ternvk/tern/vk"
)

func main() {
	var o options
	flag.StringVar(&o.model, "m", "", "GGUF `file`, or synth:SHAPE (default: the embedded model)")
	flag.DurationVar(&o.duration, "t", 10*time.Second, "how long to measure")
	flag.DurationVar(&o.interval, "interval", 16700*time.Microsecond, "between pictures")
	flag.UintVar(&o.width, "width", 1920, "pixels")
	flag.UintVar(&o.height, "height", 1080, "pixels")
	flag.StringVar(&o.png, "png", "", "write the last picture to `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "offscreen:", err)
		os.Exit(1)
	}
}

type options struct {
	model              string
	duration, interval time.Duration
	width, height      uint
	png                string
}

func (o *options) run(ctx context.Context) error {
	if o.width < 1 || o.width > 8192 || o.height < 1 || o.height > 8192 || o.interval <= 0 || o.duration <= 0 {
		return fmt.Errorf("a picture of %d by %d every %v for %v", o.width, o.height, o.interval, o.duration)
	}
	d, err := frame.OpenDevice(frame.DeviceOptions{})
	if err != nil {
		return err
	}
	defer d.Close()
	tern, err := d.Tern()
	if err != nil {
		return err
	}
	defer tern.Close()
	name, open, err := frame.Source(o.model)
	if err != nil {
		return err
	}
	m, err := open(ctx, model.Options{Executor: tern})
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Printf("device: %s, %s\nmodel: %s\n", tern.Name(), map[bool]string{true: "a queue for pictures of its own", false: "one queue for all"}[d.OwnQueue], name)
	w := &work{m: m, state: frame.State{Model: name, Device: tern.Name(), Loading: 1, Busy: true}}
	if err := w.warm(ctx); err != nil {
		return err
	}
	alone, err := w.decode(ctx, o.duration/2, nil)
	if err != nil {
		return err
	}
	fmt.Printf("decoding alone: %.1f tokens/s\n", alone)
	p, err := o.newPainter(d, w)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.draw(); err != nil { // what is made at the first picture
		return err
	}
	beside, err := w.decode(ctx, o.duration, p)
	if err != nil {
		return err
	}
	p.report(o.interval)
	fmt.Printf("decoding beside them: %.1f tokens/s, %.1f %% of alone\n", beside, 100*beside/alone)
	return o.save(p, tern)
}

// work decodes, and keeps what the picture shows of it.
type work struct {
	m      *model.Model
	state  frame.State
	tokens atomic.Int64
}

// warm makes the programs of all the lengths that are measured.
func (w *work) warm(ctx context.Context) error {
	s, err := w.m.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	return w.sequence(ctx, s, 0)
}

// decode generates tokens for a time, greedily, and returns how many a second; the painter, if there
// is one, draws meanwhile.
func (w *work) decode(ctx context.Context, t time.Duration, p *painter) (float64, error) {
	ctx, stop := context.WithTimeout(ctx, t)
	defer stop()
	s, err := w.m.NewSession()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	done := make(chan error, 1)
	w.tokens.Store(0)
	start := time.Now()
	go func() { done <- w.generate(ctx, s) }()
	var failed error
	if p != nil {
		failed = p.run(ctx, start)
	}
	err = <-done
	if failed != nil {
		return 0, failed
	}
	return float64(w.tokens.Load()) / time.Since(start).Seconds(), err
}

// generate goes on until ctx ends, through as many sequences as that takes.
func (w *work) generate(ctx context.Context, s *model.Session) error {
	for n := 0; ; n++ {
		err := w.sequence(ctx, s, n)
		if ctx.Err() == context.DeadlineExceeded {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sequence generates the tokens that follow one of many prompts.
func (w *work) sequence(ctx context.Context, s *model.Session, n int) error {
	prompt := make([]int32, 32)
	for i := range prompt {
		prompt[i] = int32((n*31 + i*7) % min(w.m.Info().Vocab, 1000))
	}
	for _, err := range s.Generate(ctx, prompt, model.Sampling{}, 256) {
		if err != nil {
			return err
		}
		w.tokens.Add(1)
	}
	return nil
}

// painter draws the state of the work.
type painter struct {
	*options
	work    *work
	r       *frame.Renderer
	picture *frame.Picture
	scene   frame.Scene
	times   []time.Duration
}

func (o *options) newPainter(d *frame.Device, w *work) (p *painter, err error) {
	p = &painter{options: o, work: w}
	if p.r, err = frame.NewRenderer(d, frame.PictureFormat, vk.ImageLayoutTransferSrcOptimal); err != nil {
		return nil, err
	}
	if p.picture, err = frame.NewPicture(d, p.r, uint32(o.width), uint32(o.height)); err != nil {
		p.r.Close()
		return nil, err
	}
	p.scene.Atlas, err = frame.NewAtlas(1)
	return p, err
}

// run draws a picture whenever one is due.
func (p *painter) run(ctx context.Context, start time.Time) error {
	for due := start.Add(p.interval); ; due = due.Add(p.interval) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(due)):
		}
		s := &p.work.state
		s.Tokens = int(p.work.tokens.Load())
		s.Rate = float64(s.Tokens) / time.Since(start).Seconds()
		s.Now = time.Now()
		s.Messages = []frame.Message{{User: true, Text: "Count the tokens."}, {Text: counting(s.Tokens)}}
		if err := p.draw(); err != nil {
			return err
		}
		s.Frame = time.Since(due)
		p.times = append(p.times, s.Frame)
		for late := time.Since(due); late > p.interval; late -= p.interval { // those that were missed
			due = due.Add(p.interval)
		}
	}
}

// counting is a text that grows as an answer does.
func counting(n int) string {
	text := make([]byte, 0, 1024)
	for i := max(0, n-150); i <= n; i++ {
		text = fmt.Appendf(text, "%d ", i)
	}
	return string(text)
}

func (p *painter) draw() error { return p.picture.Render(p.r, &p.scene, &p.work.state) }

func (p *painter) report(interval time.Duration) {
	slices.Sort(p.times)
	if len(p.times) == 0 {
		fmt.Println("no picture was drawn")
		return
	}
	at := func(share float64) time.Duration {
		return p.times[min(len(p.times)-1, int(share*float64(len(p.times))))].Round(time.Microsecond)
	}
	late := len(p.times) - slices.IndexFunc(append(p.times, interval+1), func(t time.Duration) bool { return t > interval })
	fmt.Printf("%d pictures of %d by %d, one every %v: median %v, p99 %v, longest %v; %d later than the next was due\n",
		len(p.times), p.width, p.height, interval, at(0.5), at(0.99), at(1), late)
}

func (p *painter) close() {
	p.r.Wait()
	p.picture.Close()
	p.r.Close()
}

// save writes a last picture, with the device's memory and the times of kernels.
func (o *options) save(p *painter, tern *runtime.Device) error {
	if o.png == "" {
		return nil
	}
	kernels, used, err := frame.Measure(context.Background(), tern, p.work.m)
	if err != nil {
		return err
	}
	p.work.state.Kernels, p.work.state.Used, p.work.state.Total = kernels, used, frame.MemoryOf(tern)
	if err := p.draw(); err != nil {
		return err
	}
	f, err := os.Create(o.png)
	if err != nil {
		return err
	}
	defer f.Close()
	return png.Encode(f, p.picture.Image())
}
