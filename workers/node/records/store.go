package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

const suffix = ".json"

// Record has the VMI of the launcher in a pod.
type Record struct {
	Pod contract.Object `json:"pod"`
	VMI contract.Object `json:"vmi"`
	// Delivered has the observation that the VMI's entity was sent last.
	Delivered *contract.DomainObservation `json:"delivered,omitempty"`
}

// Store keeps records in a directory. It is safe for concurrent use on different pods.
type Store struct{ dir string }

// Open makes the directory when it is missing.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of launcher records: %w", err)
	}
	return &Store{dir: dir}, nil
}

// Save writes a record, whole or not at all.
func (s *Store) Save(r Record) error {
	path, err := s.path(r.Pod.UID)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the record of pod %s: %w", r.Pod.UID, err)
	}
	if err := renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(s.dir)); err != nil {
		return fmt.Errorf("writing the record of pod %s: %w", r.Pod.UID, err)
	}
	return nil
}

// Remove forgets a pod; one that is not known is forgotten already.
func (s *Store) Remove(pod string) error {
	path, err := s.path(pod)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of pod %s: %w", pod, err)
	}
	return nil
}

// Load reads every record. A file that is none is left where it is and named in the error, beside the records that
// could be read.
func (s *Store) Load() ([]Record, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("listing launcher records: %w", err)
	}
	var all []Record
	var errs []error
	for _, e := range entries {
		pod, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			// Left by a process that was killed while it wrote: the file that it was to replace is whole.
			_ = os.Remove(filepath.Join(s.dir, e.Name()))
			continue
		}
		r, err := read(filepath.Join(s.dir, e.Name()), pod)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}

func (s *Store) path(pod string) (string, error) {
	if !launchers.IsValidPodUID(pod) {
		return "", fmt.Errorf("%.64q is not the UID of a pod", pod)
	}
	return filepath.Join(s.dir, pod+suffix), nil
}

func read(path, pod string) (Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("reading a launcher record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("launcher record %s: %w", path, err)
	}
	if r.Pod.UID != pod || r.VMI.Name == "" || r.VMI.Namespace == "" {
		return Record{}, fmt.Errorf("launcher record %s: its pod UID is not %s, or its VMI is not named", path, pod)
	}
	return r, nil
}
