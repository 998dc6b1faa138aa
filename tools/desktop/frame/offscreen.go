package frame

import (
	"image"

	"github.com/ternvk/tern/vk"
)

// Picture is an image in memory to draw on, and to look at.
type Picture struct {
	Target
	d      *Device
	image  vk.Image
	memory vk.DeviceMemory
	view   vk.ImageView
	buffer vk.Buffer
	copied vk.DeviceMemory
	pixels []byte
}

// PictureFormat is that of pictures, whose layout after drawing is TransferSrcOptimal.
const PictureFormat = vk.FormatR8G8B8A8Unorm

// NewPicture makes a picture for a renderer.
func NewPicture(d *Device, r *Renderer, width, height uint32) (p *Picture, err error) {
	p = &Picture{d: d}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	p.image, err = d.CreateImage(&vk.ImageCreateInfo{
		ImageType: vk.ImageType2D, Format: PictureFormat, Extent: vk.Extent3D{Width: width, Height: height, Depth: 1}, MipLevels: 1, ArrayLayers: 1,
		Samples: vk.SampleCount1Bit, Usage: vk.ImageUsageColorAttachmentBit | vk.ImageUsageTransferSrcBit,
	})
	if err != nil {
		return nil, err
	}
	if p.memory, err = d.allocate(d.GetImageMemoryRequirements(p.image), vk.MemoryPropertyDeviceLocalBit, 0); err != nil {
		return nil, err
	}
	if err = d.BindImageMemory(p.image, p.memory, 0); err != nil {
		return nil, err
	}
	if p.view, err = d.ImageView(p.image, PictureFormat); err != nil {
		return nil, err
	}
	if p.buffer, p.copied, p.pixels, err = d.mappedBuffer(int(width*height*4), vk.BufferUsageTransferDstBit, vk.MemoryPropertyHostCachedBit); err != nil {
		return nil, err
	}
	p.Target, err = r.Framebuffer(p.view, width, height)
	return p, err
}

// ImageView is a view of all of an image of colours.
func (d *Device) ImageView(i vk.Image, f vk.Format) (vk.ImageView, error) {
	return d.CreateImageView(&vk.ImageViewCreateInfo{
		Image: i, ViewType: vk.ImageViewType2D, Format: f, SubresourceRange: vk.ImageSubresourceRange{AspectMask: vk.ImageAspectColorBit, LevelCount: 1, LayerCount: 1},
	})
}

// Copy records the copy of the picture to where Image looks, behind a drawing.
func (p *Picture) Copy(cmd vk.CommandBuffer) {
	p.d.CmdCopyImageToBuffer(cmd, p.image, vk.ImageLayoutTransferSrcOptimal, p.buffer, []vk.BufferImageCopy{{
		ImageSubresource: vk.ImageSubresourceLayers{AspectMask: vk.ImageAspectColorBit, LayerCount: 1},
		ImageExtent:      vk.Extent3D{Width: p.Width, Height: p.Height, Depth: 1},
	}})
	p.d.CmdPipelineBarrier(cmd, vk.PipelineStageTransferBit, vk.PipelineStageHostBit, 0,
		[]vk.MemoryBarrier{{SrcAccessMask: vk.AccessTransferWriteBit, DstAccessMask: vk.AccessHostReadBit}}, nil, nil)
}

// Image is what was copied, once the drawing is done.
func (p *Picture) Image() *image.RGBA {
	i := image.NewRGBA(image.Rect(0, 0, int(p.Width), int(p.Height)))
	copy(i.Pix, p.pixels)
	return i
}

// Close frees the picture, which no drawing uses any more.
func (p *Picture) Close() {
	p.d.DestroyFramebuffer(p.Framebuffer)
	p.d.DestroyImageView(p.view)
	p.d.DestroyImage(p.image)
	p.d.FreeMemory(p.memory)
	p.d.DestroyBuffer(p.buffer)
	p.d.FreeMemory(p.copied)
}

// Render draws a state to the picture, and waits for it.
func (p *Picture) Render(r *Renderer, s *Scene, v *State) error {
	v.Draw(s, p.Width, p.Height)
	done, err := r.Draw(p.Target, s, Background, 0, 0, p.Copy)
	if err != nil {
		return err
	}
	return p.d.WaitForFences([]vk.Fence{done}, true, ^uint64(0))
}
