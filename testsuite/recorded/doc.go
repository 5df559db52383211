// Package recorded reads what was recorded of KubeVirt: files with one JSON object in each line.
package recorded
