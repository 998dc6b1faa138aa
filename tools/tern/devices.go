package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/plan"
)

// deviceReport is what devices says of one device, as its JSON spells it.
type deviceReport struct {
	Index    int          `json:"index"`
	Name     string       `json:"name"`
	Type     string       `json:"type"`
	Driver   string       `json:"driver"`
	Version  string       `json:"driver_version"`
	UUID     string       `json:"uuid"`
	PCI      string       `json:"pci,omitempty"`
	Vulkan   string       `json:"vulkan"`
	Heaps    []heapReport `json:"heaps"`
	Subgroup [3]uint32    `json:"subgroup"` // size, and the range that can be asked for
	Shared   uint32       `json:"shared_memory"`
	Features []string     `json:"features"`
	Coop     []string     `json:"cooperative_matrices"`
	Exact    *bool        `json:"exact"` // null: not probed
	Notes    []string     `json:"notes,omitempty"`
}

type heapReport struct {
	Bytes       uint64 `json:"bytes"`
	Budget      uint64 `json:"budget"` // as the driver tells it, 0: it does not
	Usable      uint64 `json:"usable"`
	Why         string `json:"usable_by"` // the figure that limits Usable
	DeviceLocal bool   `json:"device_local"`
}

func (a *app) devicesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the devices that can run models",
		Long: "List the devices that can run models, with what each of them has. Exact is the outcome of the start-up probe:\n" +
			"whether the device keeps the rules of exact arithmetic. The Go reference needs no device.",
		Example: `  tern devices
  tern devices --json
  TERN_DISABLE=coopmat tern devices`,
		Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			list, err := runtime.Devices()
			if err != nil {
				fmt.Fprintln(a.err, "tern:", err)
			}
			reports := make([]deviceReport, len(list))
			for i := range list {
				reports[i] = a.describeDevice(&list[i])
			}
			if asJSON {
				e := json.NewEncoder(a.out)
				e.SetIndent("", " ")
				return e.Encode(reports)
			}
			return a.printDevices(reports)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) describeDevice(s *plan.Snapshot) deviceReport {
	r := deviceReport{
		Index: s.Index, Name: s.Name, Type: s.Type.String(), Driver: s.DriverName, Version: s.DriverInfo,
		UUID: s.UUID.String(), PCI: s.PCI, Vulkan: s.API.String(),
		Subgroup: [3]uint32{s.Subgroup.Size, s.Subgroup.Min, s.Subgroup.Max}, Shared: s.Limits.SharedBytes,
		Features: []string{}, Coop: []string{},
	}
	for i, h := range s.Heaps {
		room := s.Room(i, 0)
		r.Heaps = append(r.Heaps, heapReport{h.Bytes, h.Budget, room.Bytes, room.Why, h.DeviceLocal})
	}
	for _, c := range s.Coop {
		r.Coop = append(r.Coop, fmt.Sprintf("%s %dx%dx%d", componentName(c), c.M, c.N, c.K))
	}
	d, err := a.vulkan(strconv.Itoa(s.Index))
	if err != nil {
		exact := false
		r.Exact, r.Notes = &exact, []string{err.Error()}
		return r
	}
	defer d.Close()
	r.Features, r.Notes = d.Plan().Features(), d.Plan().Notes
	if p := d.Probe(); p != nil {
		exact := p.Exact()
		r.Exact = &exact
	}
	return r
}

// componentName spells the types of a cooperative matrix, such as s8*s8+s32.
func componentName(c plan.CoopShape) string {
	name := func(t plan.Component) string {
		names := map[plan.Component]string{plan.Float16: "f16", plan.Float32: "f32", plan.Sint8: "s8", plan.Sint32: "s32",
			7: "u8", 9: "u32", 1000141000: "bf16"} // these are only listed, not used
		if n, ok := names[t]; ok {
			return n
		}
		return fmt.Sprintf("type%d", t)
	}
	return name(c.A) + "*" + name(c.B) + "+" + name(c.C)
}

func (a *app) printDevices(list []deviceReport) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "index\tdevice\ttype\tdriver\tvulkan\tmemory\tsubgroup\tfeatures\texact")
	for _, r := range list {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Index, r.Name, r.Type,
			strings.TrimSpace(r.Driver+" "+r.Version), r.Vulkan, sizeText(r.heap().Bytes), r.subgroup(), strings.Join(r.Features, " "), r.exact())
	}
	fmt.Fprintln(w, "-\treference\tcpu\tGo\t-\t-\t-\t-\tyes")
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range list {
		fmt.Fprintf(a.out, "%d: usable memory: %s, %s\n", r.Index, sizeText(r.heap().Usable), r.heap().Why)
		if len(r.Coop) > 0 {
			fmt.Fprintf(a.out, "%d: cooperative matrices: %s\n", r.Index, strings.Join(r.Coop, ", "))
		}
		for _, n := range r.Notes {
			fmt.Fprintf(a.out, "%d: %s\n", r.Index, n)
		}
	}
	return nil
}

// heap is the largest heap of the device's own.
func (r *deviceReport) heap() (best heapReport) {
	for _, h := range r.Heaps {
		if h.DeviceLocal && h.Bytes > best.Bytes {
			best = h
		}
	}
	return best
}

func (r *deviceReport) subgroup() string {
	if size, from, to := r.Subgroup[0], r.Subgroup[1], r.Subgroup[2]; from != 0 && from != to {
		return fmt.Sprintf("%d (%d-%d)", size, from, to)
	}
	return strconv.Itoa(int(r.Subgroup[0]))
}

func (r *deviceReport) exact() string {
	switch {
	case r.Exact == nil:
		return "not probed"
	case *r.Exact:
		return "yes"
	}
	return "no"
}
