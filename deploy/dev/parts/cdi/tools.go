//go:build tools

package cdi

import (
	_ "kubevirt.io/containerized-data-importer/cmd/cdi-apiserver"
	_ "kubevirt.io/containerized-data-importer/cmd/cdi-controller"
	_ "kubevirt.io/containerized-data-importer/cmd/cdi-importer"
	_ "kubevirt.io/containerized-data-importer/cmd/cdi-operator"
	_ "kubevirt.io/containerized-data-importer/cmd/cdi-uploadproxy"
	_ "kubevirt.io/containerized-data-importer/cmd/cdi-uploadserver"
	_ "kubevirt.io/containerized-data-importer/tools/manifest-generator"
)
