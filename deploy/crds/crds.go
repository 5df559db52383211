package crds

import "embed"

// Files are the definitions as they are installed, one file for each resource: <plural>.yaml.
//
//go:embed virtual*.yaml kubevirts.yaml migrationpolicies.yaml
var Files embed.FS
