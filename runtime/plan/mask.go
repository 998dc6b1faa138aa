package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// limits are the names of Caps in a mask.
var limits = []struct {
	name string
	set  func(c *Caps, v uint64)
}{
	{"subgroup", func(c *Caps, v uint64) { c.Subgroup = uint32(v) }},
	{"workgroups", func(c *Caps, v uint64) { c.GroupsX = uint32(v) }},
	{"invocations", func(c *Caps, v uint64) { c.Invocations = uint32(v) }},
	{"shared", func(c *Caps, v uint64) { c.SharedBytes = uint32(v) }},
	{"push", func(c *Caps, v uint64) { c.PushBytes = uint32(v) }},
	{"binding", func(c *Caps, v uint64) { c.Binding = v }},
	{"allocation", func(c *Caps, v uint64) { c.Allocation = v }},
	{"alignment", func(c *Caps, v uint64) { c.OffsetAlignment = v }},
	{"heap", func(c *Caps, v uint64) { c.Heap = v }},
}

// MaskLimits names the limits that ParseMask knows.
func MaskLimits() []string {
	var names []string
	for _, l := range limits {
		names = append(names, l.name)
	}
	return names
}

// ParseMask reads what a device is to do without: a comma list of words of Words,
// and of LIMIT=NUMBER with a limit of MaskLimits and a number that may end in K, M
// or G, which mean 1024, 1024^2 and 1024^3.
func ParseMask(list string) (caps Caps, disable []string, err error) {
	for part := range strings.SplitSeq(list, ",") {
		name, number, limited := strings.Cut(strings.TrimSpace(part), "=")
		if !limited {
			words, err := ParseWords(name)
			if err != nil {
				return caps, nil, err
			}
			disable = append(disable, words...)
			continue
		}
		i := slices.Index(MaskLimits(), name)
		if i < 0 {
			return caps, nil, fmt.Errorf("unknown limit %q; known are %s", name, strings.Join(MaskLimits(), ", "))
		}
		digits := strings.TrimRight(strings.ToUpper(number), "KMG")
		shift := map[string]int{"": 0, "K": 10, "M": 20, "G": 30}
		s, known := shift[strings.ToUpper(number)[len(digits):]]
		v, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || v == 0 || !known {
			return caps, nil, fmt.Errorf("limit %s=%s: want a number from 1 on, which may end in K, M or G", name, number)
		}
		if v <<= s; v>>32 != 0 && !slices.Contains([]string{"binding", "allocation", "heap"}, name) {
			return caps, nil, fmt.Errorf("limit %s=%s: the number is too large", name, number)
		}
		limits[i].set(&caps, v)
	}
	return caps, disable, nil
}
