package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CPUManager returns whether the kubelet gives guaranteed pods dedicated CPUs: the policy of its CPU manager is static,
// by the state file in its directory. A kubelet without that file does not.
func CPUManager(kubeletDir string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(kubeletDir, "cpu_manager_state"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the state of the kubelet's CPU manager: %w", err)
	}
	var state struct {
		PolicyName string `json:"policyName"`
	}
	if err := json.Unmarshal(b, &state); err != nil {
		return false, fmt.Errorf("reading the state of the kubelet's CPU manager: %w", err)
	}
	return state.PolicyName == "static", nil
}
