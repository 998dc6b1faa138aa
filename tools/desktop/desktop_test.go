package main_test

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// screen is what an X server without a screen shows: the file in which Xvfb keeps it, an X window
// dump.
func screen(t *testing.T, path string) *image.RGBA {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 100 {
		t.Fatalf("%d bytes of the screen, %v", len(data), err)
	}
	word := func(i int) int { return int(binary.BigEndian.Uint32(data[4*i:])) }
	width, height, stride, pixels := word(4), word(5), word(12), word(0)+12*word(19)
	i := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			p := data[pixels+y*stride+4*x:]
			i.SetRGBA(x, y, color.RGBA{p[2], p[1], p[0], 255})
		}
	}
	return i
}

// count tells how many pixels of a place have a colour.
func count(i *image.RGBA, r image.Rectangle, hex uint32) (n int) {
	want := color.RGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 255}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if i.RGBAAt(x, y) == want {
				n++
			}
		}
	}
	return n
}

// The colours of frame that are looked for.
const (
	backgroundColor = 0x12141a
	questionColor   = 0x28406e
	answerColor     = 0x242936
	barColor        = 0xf2b866
)

// The window on an X server in memory: it shows the answer to a question that was asked on the
// command line and to one that is typed, and follows its size.
func TestWindow(t *testing.T) {
	if os.Getenv("TERN_CONFORM") != "all" {
		t.Skip("builds GLFW: with TERN_CONFORM=all")
	}
	for _, tool := range []string{"Xvfb", "xdotool", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "desktop")
	build := exec.Command("go", "build", "-tags", "desktop", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	display := fmt.Sprintf(":%d", 200+os.Getpid()%5000)
	server := start(t, exec.Command("Xvfb", display, "-screen", "0", "1280x800x24", "-fbdir", dir))
	defer server()
	env := append(os.Environ(), "DISPLAY="+display, "LP_NUM_THREADS=0")
	xdotool := func(args ...string) {
		t.Helper()
		c := exec.Command("xdotool", args...)
		c.Env = env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("xdotool %q: %v\n%s", args, err, out)
		}
	}
	waitFor(t, "a screen", func() bool { _, err := os.Stat(filepath.Join(dir, "Xvfb_screen0")); return err == nil })
	time.Sleep(time.Second)
	window := exec.Command(program, "-ask", "What is the capital of France?")
	window.Env, window.Stderr = env, os.Stderr
	stop := start(t, window)
	defer stop()
	look := func() *image.RGBA { return screen(t, filepath.Join(dir, "Xvfb_screen0")) }
	chat, side := image.Rect(0, 0, 760, 720), image.Rect(766, 0, 1100, 720)
	waitFor(t, "an answer", func() bool {
		i := look()
		return count(i, chat, questionColor) > 3000 && count(i, chat, answerColor) > 3000 && count(i, side, barColor) > 1000
	})
	one := count(look(), chat, questionColor)
	xdotool("search", "--name", "Tern", "windowsize", "900", "600")
	xdotool("mousemove", "300", "300", "type", "What is 7 times 8?")
	time.Sleep(time.Second)
	xdotool("key", "Return")
	chat, side = image.Rect(0, 0, 560, 600), image.Rect(566, 0, 900, 600)
	waitFor(t, "a second answer in a smaller window", func() bool {
		i := look()
		return count(i, chat, questionColor) > one*3/2 && count(i, side, barColor) > 1000 &&
			count(i, image.Rect(901, 0, 1280, 800), backgroundColor) == 0
	})
	if path := os.Getenv("TERN_PICTURES"); path != "" { // for people to look at
		f, err := os.Create(filepath.Join(path, "window.png"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := png.Encode(f, look()); err != nil {
			t.Fatal(err)
		}
	}
}

// start starts a program, and returns what ends it.
func start(t *testing.T, c *exec.Cmd) (stop func()) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		c.Process.Kill()
		c.Wait()
	}
}

func waitFor(t *testing.T, what string, there func() bool) {
	t.Helper()
	for range 300 {
		if there() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("no %s", what)
}
