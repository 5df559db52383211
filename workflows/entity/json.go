package entity

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// Unmarshal is json.Unmarshal for workflows. It is deterministic: the same bytes give the same value.
func Unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into) //workflowcheck:ignore reflection, which the checker cannot see through
	return err
}

// Same reports whether two values have the same JSON.
func Same(a, b any) bool {
	x, errA := json.Marshal(a) //workflowcheck:ignore it sorts the keys of maps
	y, errB := json.Marshal(b) //workflowcheck:ignore it sorts the keys of maps
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// plainUpTo is up to how many bytes a state is carried uncompressed. Temporal accepts 2 MiB, in base64, and fails a
// workflow that carries more; a queue of thousands would.
const plainUpTo = 256 << 10

// Encode encodes a state for Continue-As-New: as JSON, compressed where it is long.
func Encode(state any) ([]byte, error) {
	plain, err := json.Marshal(state) //workflowcheck:ignore it sorts the keys of maps
	if err == nil {
		plain, err = pack(plain)
	}
	if err != nil {
		return nil, fmt.Errorf("writing down the state: %w", err)
	}
	return plain, nil
}

// pack compresses JSON that is long.
func pack(plain []byte) ([]byte, error) {
	if len(plain) <= plainUpTo {
		return plain, nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// unpack reverses pack.
func unpack(carried []byte) ([]byte, error) {
	if !bytes.HasPrefix(carried, []byte{0x1f, 0x8b}) { // gzip's magic number, with which no JSON begins
		return carried, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(carried))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Decode decodes the state carried by Continue-As-New; nil leaves state as it is.
func Decode(carried []byte, state any) error {
	if len(carried) == 0 {
		return nil
	}
	plain, err := unpack(carried)
	if err == nil {
		err = Unmarshal(plain, state)
	}
	if err != nil {
		return fmt.Errorf("reading the state carried from the run before: %w", err)
	}
	return nil
}
