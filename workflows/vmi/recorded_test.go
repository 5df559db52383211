package vmi

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRecordedStateKeepsItsJSON: the state is carried across Continue-As-New and answers queries, so each field keeps
// its name and meaning, and a replay compares the bytes. A field that was added is added to testdata/state.json, too.
func TestRecordedStateKeepsItsJSON(t *testing.T) {
	var s State
	populate(reflect.ValueOf(&s).Elem(), "", nil)
	got, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "state.json"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n")

	var decoded State
	d := json.NewDecoder(bytes.NewReader(want))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&decoded))
	again, err := json.MarshalIndent(decoded, "", "  ")
	require.NoError(t, err)
	require.Equal(t, string(got), string(again))
}

// populate fills a value with values that depend on the JSON names of the fields that lead to it, not on Go's. A type
// within itself stays empty.
func populate(v reflect.Value, path string, within []reflect.Type) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(path))
	n := int64(h.Sum32()>>8) + 1
	switch v.Kind() {
	case reflect.Pointer:
		if !slices.Contains(within, v.Type()) {
			v.Set(reflect.New(v.Type().Elem()))
			populate(v.Elem(), path, append(slices.Clone(within), v.Type()))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(n, 0).UTC()))
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				populate(v.Field(i), path, within)
			case f.IsExported() && name != "-":
				populate(v.Field(i), path+"."+name, within)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		populate(v.Index(0), path+"[]", within)
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		populate(key, path+"{}", within)
		populate(elem, path+"{}", within)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, elem)
	case reflect.String:
		v.SetString(path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(n % (1 << 31))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n % (1 << 8)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(n))
	default:
		panic("no value for a " + v.Type().String() + " at " + path)
	}
}
