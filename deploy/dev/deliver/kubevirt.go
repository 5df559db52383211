package deliver

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/deploy/dev/parts"
)

// kubeVirtNamespace is where KubeVirt's own pods run.
const kubeVirtNamespace = "kubevirt"

// kubeVirtTime is how long each step of KubeVirt's may take: its operator makes virt-api first, and then
// virt-controller.
const kubeVirtTime = 4 * time.Minute

// kubeVirtObject configures the operator: one replica of each, as virtflow has in the local cluster, and not two as by
// default. virt-handler runs on no node, because the nodes and pods of a measurement are simulated, and virt-handler
// with them. (So the object never becomes Available, and the operator is ended at the end.)
const kubeVirtObject = `apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: ` + kubeVirtNamespace + `}
spec:
  imagePullPolicy: IfNotPresent
  infra:
    replicas: 1
    nodePlacement: {}
  workloads:
    nodePlacement: {nodeSelector: {virtflow.io/virt-handler: none}}
`

// KubeVirt has KubeVirt's own virt-api and virt-controller run where virtflow does not, so that both can be measured on
// the same Kubernetes. They are installed as KubeVirt says: by its operator, which its own generators describe.
// Definitions, roles, certificates, webhooks and deployments are the operator's to make.
func (d Delivery) KubeVirt(ctx context.Context) error {
	if err := d.refuseBeside(ctx, Namespace, "virtflow", "make kubevirt"); err != nil {
		return err
	}
	programs, images, err := d.fromSource(ctx, parts.KubeVirt(), "kubevirt")
	if err != nil {
		return err
	}
	operator, err := operatorOfKubeVirt(ctx, programs, images)
	if err != nil {
		return err
	}
	const namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: " + kubeVirtNamespace + ", labels: " +
		"{kubevirt.io: '', pod-security.kubernetes.io/enforce: privileged}}}"
	if err := d.install(ctx, kubeVirtNamespace, kubeVirtTime, []installation{
		{namespace, nil},
		{operator, []string{"wait --for=condition=Established crd/kubevirts.kubevirt.io",
			"rollout status deployment/virt-operator"}},
		{kubeVirtObject, []string{
			"wait --for=create deployment/virt-api", "rollout status deployment/virt-api",
			"wait --for=create deployment/virt-controller", "rollout status deployment/virt-controller",
			"wait --for=condition=Available apiservice/v1.subresources.kubevirt.io",
			// It would apply everything again every six seconds while it waits for virt-handler, and otherwise do
			// nothing but renew certificates, which last for a day.
			"scale deployment/virt-operator --replicas 0",
			"wait --for=delete pod --selector kubevirt.io=virt-operator",
		}},
	}); err != nil {
		return err
	}
	d.printLine("KubeVirt's virt-api and virt-controller run; virt-handler does not. make scale SCALE=--kubevirt " +
		"measures them. make down PURGE=1 ends this.")
	return nil
}

// refuseBeside fails where a namespace exists: virtflow and KubeVirt serve the same kinds, so only one of them can.
func (d Delivery) refuseBeside(ctx context.Context, namespace, whose, then string) error {
	found, err := d.Cluster.Run(ctx, nil, "get", "namespace", namespace, "--ignore-not-found", "-o", "name")
	if err != nil || len(found) == 0 {
		return err
	}
	return errors.New(whose + " is deployed in this cluster, and both serve the same kinds: make down PURGE=1, " +
		"make up and " + then + " bring a cluster without it")
}

// operatorOfKubeVirt is the manifest of KubeVirt's operator.
func operatorOfKubeVirt(ctx context.Context, programs string, images []Image) (string, error) {
	args := []string{"-namespace", kubeVirtNamespace, "-version", contract.KubeVirtVersion}
	for _, i := range images {
		args = append(args, "-"+i.Name+"-image", i.Reference())
	}
	return manifestOf(ctx, "KubeVirt", filepath.Join(programs, "manifest"), args)
}
