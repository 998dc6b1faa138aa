package constrain

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// member of an object, in its order.
type member struct {
	name  string
	value any
}

type object []member

func (o object) get(name string) (any, bool) {
	for _, m := range o {
		if m.name == name {
			return m.value, true
		}
	}
	return nil, false
}

// decodeOrdered keeps the order of members and the spelling of numbers.
func decodeOrdered(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value func(depth int) (any, error)
	value = func(depth int) (any, error) {
		t, err := d.Token()
		if depth > 200 {
			return nil, errors.New("nested deeper than 200")
		}
		delim, ok := t.(json.Delim)
		if err != nil || !ok {
			return t, err
		}
		if delim == '[' {
			list := []any{}
			for d.More() {
				v, err := value(depth + 1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, err
		}
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := value(depth + 1)
			if err != nil {
				return nil, err
			}
			o = append(o, member{name.(string), v})
		}
		_, err = d.Token()
		return o, err
	}
	v, err := value(0)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("text after the value")
		}
	}
	return v, err
}

// quote is text as a JSON string.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
