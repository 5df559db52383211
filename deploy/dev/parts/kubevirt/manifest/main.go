// Command manifest writes what installs KubeVirt's operator: its objects as KubeVirt's own generators make them, with
// images by the names that they have in the local cluster.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
	"kubevirt.io/kubevirt/tools/util"
)

// options say what the operator is and makes.
type options struct{ namespace, version, operator, api, controller string }

func main() {
	var o options
	flag.StringVar(&o.namespace, "namespace", "kubevirt", "the namespace of KubeVirt's own pods")
	flag.StringVar(&o.version, "version", "", "KubeVirt's version")
	flag.StringVar(&o.operator, "virt-operator-image", "", "the operator's image")
	flag.StringVar(&o.api, "virt-api-image", "", "the image of virt-api, which the operator deploys")
	flag.StringVar(&o.controller, "virt-controller-image", "", "the image of virt-controller, which it deploys, too")
	flag.Parse()
	if err := write(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "manifest:", err)
		os.Exit(1)
	}
}

func write(out io.Writer, o options) error {
	definition, err := components.NewKubeVirtCrd()
	if err != nil {
		return fmt.Errorf("make the definition of KubeVirt's own kind: %w", err)
	}
	objects := []any{definition, components.NewKubeVirtPriorityClassCR()}
	objects = append(objects, rbac.GetAllOperator(o.namespace)...)
	for _, object := range append(objects, o.deployment()) {
		if err := util.MarshallObject(object, out); err != nil {
			return fmt.Errorf("write the manifest: %w", err)
		}
	}
	return nil
}

// deployment returns the operator's Deployment. There are no images of what it deploys beside virt-api and
// virt-controller: no node is to run them.
func (o options) deployment() *appsv1.Deployment {
	const (
		unneeded  = "localhost/none"
		verbosity = "2" // as in KubeVirt's releases
	)
	deployment := components.NewOperatorDeployment(o.namespace, "", "", o.version, verbosity, o.version, "", o.api,
		o.controller, unneeded, unneeded, unneeded, unneeded, unneeded, unneeded, unneeded, unneeded, unneeded, unneeded,
		o.operator, corev1.PullIfNotPresent)
	one := int32(1)
	deployment.Spec.Replicas = &one
	// The nodes of the local cluster have no role: the operator would wait for one of the control plane.
	deployment.Spec.Template.Spec.Affinity = nil
	return deployment
}
