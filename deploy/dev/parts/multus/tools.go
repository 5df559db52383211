//go:build tools

package multus

import _ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"
