package plan

import (
	"reflect"
	"testing"
)

func TestPrefer(t *testing.T) {
	tuning := &Tuning{Kernels: map[string][]TunedRange{}}
	tuning.Prefer("mm", 1, 2, "a")
	tuning.Prefer("mm", 3, 4, "a")  // goes on
	tuning.Prefer("mm", 6, 8, "a")  // with a gap
	tuning.Prefer("mm", 9, 16, "b") // another
	tuning.Prefer("other", 17, 32, "b")
	want := map[string][]TunedRange{"mm": {{1, 4, "a"}, {6, 8, "a"}, {9, 16, "b"}}, "other": {{17, 32, "b"}}}
	if !reflect.DeepEqual(tuning.Kernels, want) {
		t.Errorf("%v, want %v", tuning.Kernels, want)
	}
}
