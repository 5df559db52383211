package deliver

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/parts"
)

// cdiNamespace is where CDI's own pods run.
const cdiNamespace = "cdi"

// How long each step of CDI's may take. Its operator makes everything else, and renews its certificates: four processes
// start one after the other.
const (
	cdiTime     = 4 * time.Minute
	cdiAwayTime = 2 * time.Minute
)

// CDI's own objects: the one that the operator works for, whose deletion CDI refuses while there are DataVolumes; and
// what CDI knows by itself of well-known storage only: that every node can use a volume, and that the driver copies
// volumes. File systems come first: into a device the importer cannot write here, since containerd gives it to root
// (see device_ownership_from_security_context in containerd.toml).
const (
	cdiObject = `apiVersion: cdi.kubevirt.io/v1beta1
kind: CDI
metadata: {name: cdi}
spec:
  imagePullPolicy: IfNotPresent
  uninstallStrategy: BlockUninstallIfWorkloadsExist
  config:
    featureGates: [HonorWaitForFirstConsumer]
`
	cdiProfile = `apiVersion: cdi.kubevirt.io/v1beta1
kind: StorageProfile
metadata: {name: shared}
spec:
  cloneStrategy: csi-clone
  claimPropertySets:
  - {accessModes: [ReadWriteMany], volumeMode: Filesystem}
  - {accessModes: [ReadWriteMany], volumeMode: Block}
`
)

// CDI has KubeVirt's Containerized Data Importer fill claims, until WithoutCDI. It is installed as its authors say: by
// its operator, of which its own generator writes the manifest. Definitions, roles, certificates and deployments are
// the operator's to make, so that no copy of them has to be kept here.
func (d Delivery) CDI(ctx context.Context) error {
	programs, images, err := d.fromSource(ctx, parts.CDI(), "cdi")
	if err != nil {
		return err
	}
	operator, err := operatorOfCDI(ctx, programs, images)
	if err != nil {
		return err
	}
	controller, err := controllerOfCDI(images)
	if err != nil {
		return err
	}
	const namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: " + cdiNamespace + "}}"
	if err := d.install(ctx, cdiNamespace, cdiTime, []installation{
		{namespace, nil},
		{operator, []string{"wait --for=condition=Established crd/cdis.cdi.kubevirt.io"}},
		{cdiObject, []string{
			"wait --for=condition=Available cdi/cdi",
			// It is Available also while the operator replaces an earlier build of the others.
			"wait --for=jsonpath={.spec.template.spec.containers[0].image}=" + controller +
				" deployment/cdi-deployment",
			"rollout status deployment/cdi-deployment",
		}},
		{cdiProfile, nil},
	}); err != nil {
		return err
	}
	d.printLine("CDI fills the claims of DataVolumes. make cdi OFF=1 ends that.")
	return nil
}

// controllerOfCDI is the image of the process that fills claims.
func controllerOfCDI(images []Image) (string, error) {
	for _, i := range images {
		if i.Name == "cdi-controller" {
			return i.Reference(), nil
		}
	}
	return "", errors.New("no image cdi-controller was built")
}

// operatorOfCDI is the manifest of CDI's operator. There is no image of the cloner, which copies a claim's data through
// the network: the CSI driver copies volumes.
func operatorOfCDI(ctx context.Context, programs string, images []Image) (string, error) {
	args := []string{"-resource-type", "operator", "-resource-group", "everything", "-namespace", cdiNamespace,
		"-operator-version", parts.CDIVersion, "-deploy-cluster-resources", "true", "-pull-policy", "IfNotPresent",
		"-cloner-image", "localhost/none", "-ovirt-populator-image", "localhost/none"}
	for _, i := range images {
		args = append(args, "-"+strings.TrimPrefix(i.Name, "cdi-")+"-image", i.Reference())
	}
	return manifestOf(ctx, "CDI", filepath.Join(programs, "manifest-generator"), args)
}

// WithoutCDI takes CDI away. It refuses that itself while there are DataVolumes: with their kind they would go, and
// their claims with them.
func (d Delivery) WithoutCDI(ctx context.Context) error {
	found, err := d.Cluster.Run(ctx, nil, "get", "crd", "cdis.cdi.kubevirt.io", "--ignore-not-found", "-o", "name")
	if err != nil || len(found) == 0 {
		return err
	}
	for _, args := range []string{
		"delete cdi/cdi --ignore-not-found",
		// Of a Service that is gone it would keep every namespace from being deleted.
		"wait --for=delete apiservice/v1beta1.upload.cdi.kubevirt.io",
		"delete clusterrole,clusterrolebinding --selector operator.cdi.kubevirt.io",
		"delete namespace " + cdiNamespace + " --ignore-not-found",
		"delete crd/cdis.cdi.kubevirt.io", // what a run that was cut off is known by
	} {
		step := append(strings.Fields(args), "--timeout", cdiAwayTime.String())
		if _, err := d.Cluster.Run(ctx, nil, step...); err != nil {
			return err
		}
	}
	d.printLine("CDI is gone.")
	return nil
}
