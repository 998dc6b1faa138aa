package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// null is the type of JSON's null, Python's None. As a closed channel it is
// false, has no items, is not nil (gonja's word for what is not defined), and is
// none of the types that templates can ask for.
type null chan struct{}

func (null) String() string { return "None" }

var none = func() null {
	c := make(null)
	close(c)
	return c
}()

// list is a JSON array. It has its own indexing, since gonja's does not reach
// the first element by a negative index.
type list []any

// GetItem implements exec.ItemGetter.
func (l list) GetItem(key any) (*exec.Value, bool) {
	i, ok := key.(int)
	if i < 0 {
		i += len(l)
	}
	if !ok || i < 0 || i >= len(l) {
		return exec.AsValue(nil), false
	}
	return exec.ToValue(l[i]), true
}

// maxNesting bounds the depth of JSON values.
const maxNesting = 200

// decoder turns JSON into values for gonja: objects into ordered dictionaries.
type decoder struct {
	shadowed bool // a string has a character of the shadow alphabet
}

func (d *decoder) decode(data []byte) (any, error) {
	j := json.NewDecoder(bytes.NewReader(data))
	j.UseNumber()
	v, err := d.value(j, 0)
	if err != nil {
		return nil, err
	}
	if _, err := j.Token(); err != io.EOF {
		return nil, errors.New("text after the JSON value")
	}
	return v, nil
}

func (d *decoder) value(j *json.Decoder, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("JSON nested deeper than %d", maxNesting)
	}
	t, err := j.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		return none, nil
	case string:
		d.shadowed = d.shadowed || hasShadow(t)
		return t, nil
	case json.Number:
		return number(t)
	case json.Delim:
		if t == '{' {
			return d.object(j, depth)
		}
		l := list{}
		for j.More() {
			v, err := d.value(j, depth+1)
			if err != nil {
				return nil, err
			}
			l = append(l, v)
		}
		_, err := j.Token()
		return l, err
	}
	return t, nil // a boolean
}

func (d *decoder) object(j *json.Decoder, depth int) (any, error) {
	dict := exec.NewDict()
	at := map[string]*exec.Pair{}
	for j.More() {
		key, err := d.value(j, depth+1)
		if err != nil {
			return nil, err
		}
		v, err := d.value(j, depth+1)
		if err != nil {
			return nil, err
		}
		name := key.(string) // the decoder has checked it
		if p := at[name]; p != nil {
			p.Value = exec.AsValue(v) // as in Python, the last value at the first place
			continue
		}
		at[name] = &exec.Pair{Key: exec.AsValue(name), Value: exec.AsValue(v)}
		dict.Pairs = append(dict.Pairs, at[name])
	}
	_, err := j.Token()
	return dict, err
}

// number keeps integers and floats apart, as Python does. Integers beyond 64
// bits stay as they are written.
func number(n json.Number) (any, error) {
	if !bytes.ContainsAny([]byte(n), ".eE") {
		if i, err := strconv.Atoi(n.String()); err == nil {
			return i, nil
		}
		return n, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("number %s: out of range", n)
	}
	return f, nil
}
