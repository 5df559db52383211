package suite

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ReadRecorded reads a file of cases; one whose name ends in .gz is unpacked.
func ReadRecorded[Case any](name string) ([]*Case, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the recorded cases: %w", err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("unpacking the recorded cases: %w", err)
		}
	}
	var out []*Case
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			c := new(Case)
			if err := json.Unmarshal(line, c); err != nil {
				return nil, fmt.Errorf("reading recorded case %d: %w", len(out)+1, err)
			}
			out = append(out, c)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the recorded cases: %w", err)
		}
	}
}
