package main

import (
	"testing"

	"github.com/ternvk/tern/runtime/plan"
)

func TestComponentName(t *testing.T) {
	for want, shape := range map[string]plan.CoopShape{
		"s8*s8+s32":    {A: plan.Sint8, B: plan.Sint8, C: plan.Sint32},
		"u8*u8+u32":    {A: 7, B: 7, C: 9},
		"bf16*f16+f32": {A: 1000141000, B: plan.Float16, C: plan.Float32},
		"s8*s8+type6":  {A: plan.Sint8, B: plan.Sint8, C: 6},
	} {
		if got := componentName(shape); got != want {
			t.Errorf("%+v: %s, want %s", shape, got, want)
		}
	}
}
