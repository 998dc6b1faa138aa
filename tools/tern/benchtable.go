package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// table prints results as they come.
type table interface {
	row(r *benchResult) error
	end() error
}

func newTable(format string, w io.Writer) (table, error) {
	switch format {
	case "md":
		return &markdown{w: w}, nil
	case "csv":
		return &commas{w: csv.NewWriter(w)}, nil
	case "json":
		return &jsonList{w: w}, nil
	}
	return nil, usagef("--output %q: want md, csv or json", format)
}

type markdown struct {
	w       io.Writer
	started bool
	build   string
}

func (t *markdown) row(r *benchResult) error {
	if !t.started {
		t.started = true
		fmt.Fprintln(t.w, "| model | size | params | device | test | t/s | GB/s | % of peak |")
		fmt.Fprintln(t.w, "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
	}
	t.build = r.Build
	gbs, share := "", ""
	if r.GBS > 0 {
		gbs = fmt.Sprintf("%.1f", r.GBS)
		if r.PeakGBS > 0 {
			share = fmt.Sprintf("%.1f", 100*r.GBS/r.PeakGBS)
		}
	}
	speed := fmt.Sprintf("%.2f ± %.2f", r.AvgTS, r.DevTS)
	if r.Ratio > 0 {
		speed += fmt.Sprintf(", x %.2f", r.Ratio)
	}
	_, err := fmt.Fprintf(t.w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
		r.Model, sizeText(r.Size), countText(r.Params), strings.ReplaceAll(r.Device, "|", "/"), r.test(), speed, gbs, share)
	return err
}

func (t *markdown) end() error {
	_, err := fmt.Fprintf(t.w, "\nbuild: %s\n", t.build)
	return err
}

// commas has the scalar fields of the JSON, in their order.
type commas struct {
	w       *csv.Writer
	started bool
}

func (t *commas) row(r *benchResult) error {
	var names, values []string
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() != reflect.Slice {
			names = append(names, v.Type().Field(i).Tag.Get("json"))
			values = append(values, fmt.Sprint(f.Interface()))
		}
	}
	if !t.started {
		t.started = true
		if err := t.w.Write(names); err != nil {
			return err
		}
	}
	err := t.w.Write(values)
	t.w.Flush()
	return err
}

func (t *commas) end() error { return t.w.Error() }

type jsonList struct {
	w    io.Writer
	list []*benchResult
}

func (t *jsonList) row(r *benchResult) error {
	t.list = append(t.list, r)
	return nil
}

func (t *jsonList) end() error {
	e := json.NewEncoder(t.w)
	e.SetIndent("", " ")
	return e.Encode(t.list)
}
