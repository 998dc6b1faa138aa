package gguf

import (
	"fmt"
	"math"
	"reflect"
)

// Get returns the value of a metadata key; see [KV] for its types.
func (f *File) Get(key string) (any, bool) {
	i, ok := f.keys[key]
	if !ok {
		return nil, false
	}
	return f.Meta[i].Value, true
}

// The getters below return false when the key is absent, and an error that
// names the key and its type when the value is of another type or does not fit.

// U32 returns an unsigned number stored as any integer type.
func (f *File) U32(key string) (uint32, bool, error) {
	return number(f, key, "an unsigned 32-bit integer", func(v int64) (uint32, bool) {
		return uint32(v), v >= 0 && v <= math.MaxUint32
	}, nil)
}

// I32 returns a signed number stored as any integer type.
func (f *File) I32(key string) (int32, bool, error) {
	return number(f, key, "a 32-bit integer", fitI32, nil)
}

// F32 returns a number stored as float32, or as float64 and then rounded.
func (f *File) F32(key string) (float32, bool, error) {
	return number(f, key, "a float", nil, func(v float64) float32 { return float32(v) })
}

// Bool returns a boolean.
func (f *File) Bool(key string) (bool, bool, error) { return typed[bool](f, key, "a boolean") }

// String returns a string, as it stands in the file.
func (f *File) String(key string) (string, bool, error) { return typed[string](f, key, "a string") }

// Strings returns an array of strings; it must not be changed.
func (f *File) Strings(key string) ([]string, bool, error) {
	return typed[[]string](f, key, "an array of strings")
}

// I32s returns an array of numbers stored as any integer type.
func (f *File) I32s(key string) ([]int32, bool, error) {
	return numbers(f, key, "an array of 32-bit integers", fitI32, nil)
}

// F32s returns an array of numbers stored as float32 or float64.
func (f *File) F32s(key string) ([]float32, bool, error) {
	return numbers(f, key, "an array of floats", nil, func(v float64) float32 { return float32(v) })
}

func fitI32(v int64) (int32, bool) { return int32(v), v >= math.MinInt32 && v <= math.MaxInt32 }

func wrong(f *File, key, want string, v any) error {
	return fmt.Errorf("%s: metadata key %s is %s, not %s", f.Name, short(key), describe(v), want)
}

// describe says what a value is, and a number's value.
func describe(v any) string {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Slice:
		return fmt.Sprintf("an array of %d %s", r.Len(), r.Type().Elem())
	case reflect.String:
		return "a string"
	}
	return fmt.Sprintf("%T %v", v, v)
}

func typed[T any](f *File, key, want string) (T, bool, error) {
	var zero T
	v, ok := f.Get(key)
	if !ok {
		return zero, false, nil
	}
	t, ok := v.(T)
	if !ok {
		return zero, false, wrong(f, key, want, v)
	}
	return t, true, nil
}

// asInt widens any integer; a uint64 beyond int64 fits no getter and is refused.
func asInt(v any) (int64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), true
	case r.CanUint():
		return int64(r.Uint()), r.Uint() <= math.MaxInt64
	}
	return 0, false
}

func asFloat(v any) (float64, bool) {
	if r := reflect.ValueOf(v); r.CanFloat() {
		return r.Float(), true
	}
	return 0, false
}

// convert turns a scalar into T through the one of fit and round that is given.
func convert[T any](v any, fit func(int64) (T, bool), round func(float64) T) (T, bool) {
	var zero T
	if fit != nil {
		if i, ok := asInt(v); ok {
			return fit(i)
		}
	} else if x, ok := asFloat(v); ok {
		return round(x), true
	}
	return zero, false
}

func number[T any](f *File, key, want string, fit func(int64) (T, bool), round func(float64) T) (T, bool, error) {
	var zero T
	v, ok := f.Get(key)
	if !ok {
		return zero, false, nil
	}
	t, ok := convert(v, fit, round)
	if !ok {
		return zero, false, wrong(f, key, want, v)
	}
	return t, true, nil
}

func numbers[T any](f *File, key, want string, fit func(int64) (T, bool), round func(float64) T) ([]T, bool, error) {
	v, ok := f.Get(key)
	if !ok {
		return nil, false, nil
	}
	if out, ok := v.([]T); ok {
		return out, true, nil
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return nil, false, wrong(f, key, want, v)
	}
	out := make([]T, list.Len())
	for i := range out {
		if out[i], ok = convert(list.Index(i).Interface(), fit, round); !ok {
			return nil, false, wrong(f, key, want, v)
		}
	}
	return out, true, nil
}
