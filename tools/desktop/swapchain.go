//go:build desktop

package main

import (
	"errors"
	"fmt"

	"github.com/ternvk/tern/tools/desktop/frame"
	"github.com/ternvk/tern/vk"
)

// swapchain is the pictures that the window shows.
type swapchain struct {
	d        *frame.Device
	r        *frame.Renderer
	format   vk.SurfaceFormatKHR
	chain    vk.SwapchainKHR
	targets  []frame.Target
	views    []vk.ImageView
	drawn    []vk.Semaphore // by image
	acquired [4]vk.Semaphore
	next     int
}

// newSwapchain prepares drawing; the first picture makes the images.
func newSwapchain(d *frame.Device) (s *swapchain, err error) {
	s = &swapchain{d: d}
	formats, err := d.Instance.GetPhysicalDeviceSurfaceFormatsKHR(d.Physical, d.Surface)
	if err != nil || len(formats) == 0 {
		return nil, fmt.Errorf("the window's formats: %w", err)
	}
	s.format = formats[0]
	for _, f := range formats {
		if f.Format == vk.FormatB8G8R8A8Unorm || f.Format == vk.FormatR8G8B8A8Unorm {
			s.format = f
			break
		}
	}
	if s.r, err = frame.NewRenderer(d, s.format.Format, vk.ImageLayoutPresentSrcKHR); err != nil {
		return nil, err
	}
	for i := range s.acquired {
		if s.acquired[i], err = d.CreateSemaphore(&vk.SemaphoreCreateInfo{}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// resize makes the images for a size, which the window system may correct.
func (s *swapchain) resize(width, height uint32) error {
	s.idle()
	caps, err := s.d.Instance.GetPhysicalDeviceSurfaceCapabilitiesKHR(s.d.Physical, s.d.Surface)
	if err != nil {
		return err
	}
	extent := caps.CurrentExtent
	if extent.Width == ^uint32(0) {
		extent.Width = min(max(width, caps.MinImageExtent.Width), caps.MaxImageExtent.Width)
		extent.Height = min(max(height, caps.MinImageExtent.Height), caps.MaxImageExtent.Height)
	}
	s.free()
	if extent.Width == 0 || extent.Height == 0 {
		return nil // minimised
	}
	count := max(caps.MinImageCount, 3)
	if caps.MaxImageCount > 0 {
		count = min(count, caps.MaxImageCount)
	}
	s.chain, err = s.d.CreateSwapchainKHR(&vk.SwapchainCreateInfoKHR{
		Surface: s.d.Surface, MinImageCount: count, ImageFormat: s.format.Format, ImageColorSpace: s.format.ColorSpace, ImageExtent: extent,
		ImageArrayLayers: 1, ImageUsage: vk.ImageUsageColorAttachmentBit, PreTransform: caps.CurrentTransform,
		CompositeAlpha: alpha(caps.SupportedCompositeAlpha), PresentMode: vk.PresentModeFifoKHR, Clipped: vk.True,
	})
	if err != nil {
		return fmt.Errorf("swapchain: %w", err)
	}
	images, err := s.d.GetSwapchainImagesKHR(s.chain)
	if err != nil {
		return err
	}
	for _, image := range images {
		view, err := s.d.ImageView(image, s.format.Format)
		if err != nil {
			return err
		}
		s.views = append(s.views, view)
		t, err := s.r.Framebuffer(view, extent.Width, extent.Height)
		if err != nil {
			return err
		}
		s.targets = append(s.targets, t)
		semaphore, err := s.d.CreateSemaphore(&vk.SemaphoreCreateInfo{})
		if err != nil {
			return err
		}
		s.drawn = append(s.drawn, semaphore)
	}
	return nil
}

// alpha is the plainest way to put the window over others.
func alpha(offered vk.CompositeAlphaFlagsKHR) vk.CompositeAlphaFlagsKHR {
	if offered&vk.CompositeAlphaOpaqueBitKHR != 0 {
		return vk.CompositeAlphaOpaqueBitKHR
	}
	return offered & -offered
}

// draw shows a state. fresh is false when the images no longer fit the window.
func (s *swapchain) draw(scene *frame.Scene, v *frame.State) (fresh bool, err error) {
	if s.chain == 0 {
		return false, nil
	}
	ready := s.acquired[s.next]
	s.next = (s.next + 1) % len(s.acquired)
	i, err := s.d.AcquireNextImageKHR(s.chain, ^uint64(0), ready, 0)
	if errors.Is(err, vk.ErrorOutOfDateKHR) {
		return false, nil
	}
	if err != nil && !errors.Is(err, vk.SuboptimalKHR) {
		return false, err
	}
	t := s.targets[i]
	v.Draw(scene, t.Width, t.Height)
	if _, err := s.r.Draw(t, scene, frame.Background, ready, s.drawn[i], nil); err != nil {
		return false, err
	}
	err = s.d.Present(&vk.PresentInfoKHR{
		WaitSemaphoreCount: 1, PWaitSemaphores: &s.drawn[i], SwapchainCount: 1, PSwapchains: &s.chain, PImageIndices: &i,
	})
	if errors.Is(err, vk.ErrorOutOfDateKHR) || errors.Is(err, vk.SuboptimalKHR) {
		return false, nil
	}
	return err == nil, err
}

func (s *swapchain) idle() {
	s.r.Wait()
	s.d.Idle()
}

func (s *swapchain) free() {
	for _, t := range s.targets {
		s.d.DestroyFramebuffer(t.Framebuffer)
	}
	for _, v := range s.views {
		s.d.DestroyImageView(v)
	}
	for _, x := range s.drawn {
		s.d.DestroySemaphore(x)
	}
	s.d.DestroySwapchainKHR(s.chain)
	s.chain, s.targets, s.views, s.drawn = 0, nil, nil, nil
}

func (s *swapchain) close() {
	s.idle()
	s.free()
	for _, x := range s.acquired {
		s.d.DestroySemaphore(x)
	}
	s.r.Close()
}
