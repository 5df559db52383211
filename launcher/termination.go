package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unicode/utf8"

	"github.com/virtflow/virtflow/contract"
)

// terminationLimit is the size in bytes to which the control plane cuts a termination message. The kubelet's own limit
// is four times as much.
const terminationLimit = 1024

// EncodeTermination encodes the message as JSON, with its text cut so that the whole fits.
func EncodeTermination(m contract.TerminationMessage) ([]byte, error) {
	for {
		b, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("encoding the termination message: %w", err)
		}
		if len(b) <= terminationLimit || m.Message == "" {
			return b, nil
		}
		// A byte of text may take six in JSON: cut the least that can suffice, and check again.
		keep := min(terminationLimit, len(m.Message)-(len(b)-terminationLimit+5)/6)
		keep = max(0, keep)
		for keep > 0 && keep < len(m.Message) && !utf8.RuneStart(m.Message[keep]) {
			keep--
		}
		m.Message = m.Message[:keep]
	}
}

// writeTermination writes the message for the kubelet. Outside of a pod the file does not exist, which is no error.
func writeTermination(path string, m contract.TerminationMessage) error {
	b, err := EncodeTermination(m)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0) // named by the pod's own command line
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the termination message: %w", err)
	}
	if _, err := f.Write(b); err != nil {
		_ = f.Close()
		return fmt.Errorf("writing the termination message: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("writing the termination message: %w", err)
	}
	return nil
}

// Refuse writes err as the reason why nothing could be started, and returns it.
func Refuse(cfg Config, err error) error {
	message := contract.TerminationMessage{Reason: contract.ReasonFailed, Message: err.Error()}
	return errors.Join(err, writeTermination(cfg.TerminationMessage, message))
}
