package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
)

const own = "system:serviceaccount:virtflow:virtflow-control-worker"

type call struct {
	path, user string
	operation  admissionv1.Operation
	old        string
}

func ask(t *testing.T, c call, object string) *admissionv1.AdmissionResponse {
	t.Helper()
	stage := kubevirtv1.VMRolloutStrategyStage
	cluster := defaults.Cluster{Architecture: "amd64", Configuration: kubevirtv1.KubeVirtConfiguration{
		VMRolloutStrategy:    &stage,
		NetworkConfiguration: &kubevirtv1.NetworkConfiguration{NetworkInterface: "masquerade"},
	}}
	h := Handlers(Options{
		Cluster:  func(context.Context) (defaults.Cluster, error) { return cluster, nil },
		OwnUsers: []string{own},
	})
	if c.user == "" {
		c.user = "alice"
	}
	req := &admissionv1.AdmissionRequest{
		UID: "1", Operation: c.operation,
		Resource: metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: resourceOf(c.path)},
		Object:   runtime.RawExtension{Raw: []byte(object)}, UserInfo: authenticationv1.UserInfo{Username: c.user},
	}
	if c.old != "" {
		req.OldObject = runtime.RawExtension{Raw: []byte(c.old)}
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
	})
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, c.path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h[c.path].ServeHTTP(w, r)
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &review))
	return review.Response
}

func resourceOf(path string) string {
	switch path {
	case PathMutateVM, PathMutateVMStatus, PathValidateVM, PathValidateStatus:
		return "virtualmachines"
	case PathMutateVMIRS, PathValidateVMIRS:
		return "virtualmachineinstancereplicasets"
	case PathMutateVMIM, PathValidateVMIM, PathValidateVMIMUpdate:
		return "virtualmachineinstancemigrations"
	default:
		return "virtualmachineinstances"
	}
}

// mutate sends the object and applies the patch.
func mutate[T any](t *testing.T, c call, object string) T {
	t.Helper()
	resp := ask(t, c, object)
	require.True(t, resp.Allowed, "%v", resp.Result)
	out := []byte(object)
	if len(resp.Patch) > 0 {
		p, err := jsonpatch.DecodePatch(resp.Patch)
		require.NoError(t, err)
		out, err = p.Apply(out)
		require.NoError(t, err)
	}
	var got T
	require.NoError(t, json.Unmarshal(out, &got))
	return got
}

const demo = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "demo", "namespace": "demo"}, "spec": {
	"runStrategy": "Always", "template": {"spec": {
		"domain": {"memory": {"guest": "128Mi"}, "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]}},
		"volumes": [{"name": "root", "containerDisk": {"image": "guest:v1"}}]
	}}}}`

func TestDefaultsThenAcceptsVM(t *testing.T) {
	vm := mutate[kubevirtv1.VirtualMachine](t, call{path: PathMutateVM, operation: admissionv1.Create}, demo)
	require.Equal(t, "alice", vm.Annotations[contract.AnnotationRequestedBy])
	require.Equal(t, []string{contract.FinalizerVM}, vm.Finalizers)
	completed, err := json.Marshal(vm)
	require.NoError(t, err)
	resp := ask(t, call{path: PathValidateVM, operation: admissionv1.Create}, string(completed))
	require.True(t, resp.Allowed, "%v", resp.Result)
}

func withAnnotation(t *testing.T, object, user, strategy string) string {
	t.Helper()
	var vm kubevirtv1.VirtualMachine
	require.NoError(t, json.Unmarshal([]byte(object), &vm))
	vm.Annotations = map[string]string{contract.AnnotationRequestedBy: user}
	s := kubevirtv1.VirtualMachineRunStrategy(strategy)
	vm.Spec.RunStrategy = &s
	// As it is stored: completed.
	defaults.UpdateVM(&vm, defaults.Cluster{Architecture: "amd64"})
	raw, err := json.Marshal(vm)
	require.NoError(t, err)
	return string(raw)
}

func TestRequestedByCannotBeForged(t *testing.T) {
	before := withAnnotation(t, demo, "alice", "Always")
	for _, c := range []struct {
		what, user, object, want string
	}{
		{"a change of the spec is the user's own", "bob", withAnnotation(t, demo, "mallory", "Halted"), "bob"},
		{"without a change of the spec nothing changes", "bob", withAnnotation(t, demo, "mallory", "Always"), "alice"},
		{"virtflow's own accounts pass it on", own, withAnnotation(t, demo, "carol", "Halted"), "carol"},
	} {
		vm := mutate[kubevirtv1.VirtualMachine](t,
			call{path: PathMutateVM, operation: admissionv1.Update, user: c.user, old: before}, c.object)
		require.Equal(t, c.want, vm.Annotations[contract.AnnotationRequestedBy], c.what)
	}
	vm := mutate[kubevirtv1.VirtualMachine](t, call{path: PathMutateVM, operation: admissionv1.Create, user: "bob"},
		withAnnotation(t, demo, "mallory", "Always"))
	require.Equal(t, "bob", vm.Annotations[contract.AnnotationRequestedBy])
}

const instance = `{"metadata": {"name": "i", "namespace": "demo"}, "spec": {"domain": {"devices": {}, "memory": ` +
	`{"guest": "64Mi"}}}, "status": {"phase": "Running"}}`

func TestUsersCannotWriteInstancesStatus(t *testing.T) {
	forged := `{"metadata": {"name": "i", "namespace": "demo"}, "spec": {"domain": {"devices": {}, "memory": ` +
		`{"guest": "64Mi"}}}, "status": {"phase": "Failed"}}`
	c := call{path: PathMutateVMI, operation: admissionv1.Update, old: instance}
	require.Equal(t, kubevirtv1.Running, mutate[kubevirtv1.VirtualMachineInstance](t, c, forged).Status.Phase)
	c.user = own
	require.Equal(t, kubevirtv1.Failed, mutate[kubevirtv1.VirtualMachineInstance](t, c, forged).Status.Phase)

	created := `{"metadata": {"name": "i"}, "spec": {"domain": {"devices": {}, "memory": {"guest": "64Mi"}}}, ` +
		`"status": {"phase": "Running", "nodeName": "n"}}`
	c = call{path: PathMutateVMI, operation: admissionv1.Create}
	status := mutate[kubevirtv1.VirtualMachineInstance](t, c, created).Status
	require.Equal(t, kubevirtv1.Pending, status.Phase)
	require.Empty(t, status.NodeName)
}

func TestInstanceSpecIsImmutable(t *testing.T) {
	changed := `{"metadata": {"name": "i"}, "spec": {"domain": {"devices": {}, "memory": {"guest": "128Mi"}}}}`
	c := call{path: PathValidateVMIPatch, operation: admissionv1.Update, old: instance}
	resp := ask(t, c, changed)
	require.False(t, resp.Allowed)
	require.Equal(t, "update of VMI object is restricted", resp.Result.Message)
	c.user = own
	require.True(t, ask(t, c, changed).Allowed)
}

func TestRefusalsNameField(t *testing.T) {
	for _, c := range []struct {
		path, object, field, message string
	}{
		{PathValidateVM, `{"spec": {"runStrategy": "Always"}}`, "", "spec.template in body is required"},
		{PathValidateVM, `{"spec": {"template": {"spec": {"domain": {"devices": {}, "memory": {"guest": "64Mi"}}}}}}`,
			"spec.running", "RunStrategy must be specified"},
		{PathValidateVM, `{"spec": {"runStrategy": "Sometimes", "template": {"spec": {"domain": {"devices": {}}}}}}`,
			"spec.runStrategy", "Invalid RunStrategy (Sometimes)"},
		{
			PathValidateVM, `{"spec": {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}}}}}}`,
			"",
			"no memory requested, at least one of 'spec.template.spec.domain.memory.guest', " +
				"'spec.template.spec.domain.memory.hugepages.pageSize' or " +
				"'spec.template.spec.domain.resources.requests.memory' must be set",
		},
		{
			PathValidateVM, `{"spec": {"runStrategy": "Always", "template": {"metadata": {"labels": ` +
				`{"kubevirt.io/nodeName": "n"}}, "spec": {"domain": {"devices": {}, "memory": {"guest": "64Mi"}}}}}}`,
			"spec.template.metadata.labels",
			"creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
		},
		{
			PathValidateVM, `{"spec": {"runStrategy": "WaitAsReceiver", "template": {"spec": {"domain": {"devices": ` +
				`{}, "memory": {"guest": "64Mi"}}}}}}`,
			"spec.runStrategy", "Invalid RunStrategy (WaitAsReceiver), DecentralizedLiveMigration feature gate is " +
				"not enabled in kubevirt resource",
		},
		{
			PathValidateVM, `{"metadata": {"annotations": {"virtflow.io/approval-required": "start, migrate"}}, ` +
				`"spec": {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}, "memory": ` +
				`{"guest": "64Mi"}}}}}}`,
			"metadata.annotations[virtflow.io/approval-required]",
			`" migrate" is not an operation that can wait for approval`,
		},
		{
			PathValidateVM, `{"spec": {"runStrategy": "Always", "template": {"metadata": {"annotations": ` +
				`{"kubevirt.io/pci-topology-version": "v2"}}, "spec": {"domain": {"devices": {}, "memory": ` +
				`{"guest": "64Mi"}}}}}}`,
			"spec.template.metadata.annotations[kubevirt.io/pci-topology-version]", "v2 is not supported yet",
		},
		{
			PathValidateVMI, `{"metadata": {"name": "i", "annotations": {"kubevirt.io/create-migration-target": ` +
				`"true"}}, "spec": {"architecture": "amd64", "domain": {"devices": {}, "memory": {"guest": "64Mi"}}}}`,
			"metadata.annotations[kubevirt.io/create-migration-target]", "is not supported yet",
		},
		{
			PathValidateVMIRS, `{"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": ` +
				`{"labels": {"a": "b"}, "annotations": {"kubevirt.io/create-migration-target": "true"}}, "spec": ` +
				`{"domain": {"devices": {}, "memory": {"guest": "64Mi"}}}}}}`,
			"spec.template.metadata.annotations[kubevirt.io/create-migration-target]", "is not supported yet",
		},
		{PathValidateVMIM, `{"spec": {}}`, "spec.vmiName", "vmiName is missing"},
		{
			PathValidateKubeVirt, `{"spec": {"configuration": {"network": {"defaultNetworkInterface": "slirp"}}}}`,
			"spec.configuration.network.defaultNetworkInterface",
			"slirp is not supported yet (supported: bridge, masquerade)",
		},
		{
			PathValidateKubeVirt, `{"spec": {"configuration": {"network": {"defaultNetworkInterface": "masquerade"}, ` +
				`"migrations": {"disableTLS": true}}}}`, "spec.configuration.migrations.disableTLS",
			"true is not supported yet (supported: false)",
		},
		{
			PathValidateKubeVirt, `{"spec": {"configuration": {"network": {"defaultNetworkInterface": "masquerade"}, ` +
				`"migrations": {"disableTLS": false, "progressTimeout": -1, "allowPostCopy": true}}}}`,
			"spec.configuration.migrations.progressTimeout", "must not be negative",
		},
	} {
		resp := ask(t, call{path: c.path, operation: admissionv1.Create}, c.object)
		require.False(t, resp.Allowed, c.object)
		require.EqualValues(t, http.StatusUnprocessableEntity, resp.Result.Code)
		require.Contains(t, resp.Result.Message, c.message)
		require.Equal(t, c.field, resp.Result.Details.Causes[0].Field)
	}
}

func TestAdmitsUpdateOfVMBeingDeleted(t *testing.T) {
	going := `{"metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"runStrategy": ` +
		`"Manual", "template": {"spec": {"domain": {"devices": {}}}}}}`
	for _, path := range []string{PathMutateVM, PathValidateVM} {
		resp := ask(t, call{path: path, operation: admissionv1.Update, old: going}, going)
		require.True(t, resp.Allowed)
		require.Empty(t, resp.Patch)
	}
}

func TestLimitsCauses(t *testing.T) {
	causes := make([]metav1.StatusCause, 12)
	for i := range causes {
		causes[i].Message = "x"
	}
	resp := refusal(causes)
	require.Contains(t, resp.Result.Message, ", and 2 more validation errors")
	require.Len(t, resp.Result.Details.Causes, 10)
}

func TestInvalidObjectIsBadRequest(t *testing.T) {
	for object, message := range map[string]string{
		`[]`: "json: cannot unmarshal array into Go value of type map[string]interface {}",
		`{"spec": {"template": {"spec": {"domain": {"devices": {}, "memory": {"guest": "much"}}}}}}`: "quantities must match the regular expression",
	} {
		resp := ask(t, call{path: PathValidateVM, operation: admissionv1.Create}, object)
		require.False(t, resp.Allowed)
		require.EqualValues(t, http.StatusBadRequest, resp.Result.Code)
		require.Contains(t, resp.Result.Message, message)
	}
}

// TestHotplugLimits: under KubeVirt's default rollout strategy an instance gets them, and a user may set others.
func TestHotplugLimits(t *testing.T) {
	live := defaults.Cluster{Architecture: "amd64", Configuration: kubevirtv1.KubeVirtConfiguration{
		NetworkConfiguration: &kubevirtv1.NetworkConfiguration{NetworkInterface: "masquerade"},
	}}
	guest := resource.MustParse("64Mi")
	for asked, want := range map[uint32]uint32{0: 4, 2: 2} {
		vmi := &kubevirtv1.VirtualMachineInstance{
			Spec: kubevirtv1.VirtualMachineInstanceSpec{
				Domain: kubevirtv1.DomainSpec{Memory: &kubevirtv1.Memory{Guest: &guest},
					CPU: &kubevirtv1.CPU{MaxSockets: asked}}}}
		require.NoError(t, defaults.CreateVMI(vmi, live, time.Now()))
		require.Equal(t, want, vmi.Spec.Domain.CPU.MaxSockets)
		causes, err := instanceNotRunYet(&vmi.ObjectMeta, &vmi.Spec, live, "")
		require.NoError(t, err)
		require.Empty(t, causes)
	}
}

func TestUsersCannotSetReplicaOrdinals(t *testing.T) {
	numbered := func(n string) string {
		return strings.Replace(instance, `"name": "i",`,
			`"name": "i", "annotations": {"virtflow.io/replica": "`+n+`"},`, 1)
	}
	for _, c := range []struct {
		old, now string
		refused  bool
	}{
		{instance, numbered("7"), true},
		{numbered("7"), numbered("8"), true},
		{numbered("7"), instance, true},
		{numbered("7"), numbered("7"), false},
	} {
		how := call{path: PathValidateVMIPatch, operation: admissionv1.Update, old: c.old}
		resp := ask(t, how, c.now)
		require.Equal(t, c.refused, !resp.Allowed, "%s", c.now)
		if c.refused {
			require.Contains(t, resp.Result.Message, "only virtflow sets or changes it")
		}
		how.user = own
		require.True(t, ask(t, how, c.now).Allowed)
	}
}

// TestWarnsAboutIgnoredBridgeAnnotation: the warning appears for each kind of object that makes a bridged guest.
func TestWarnsAboutIgnoredBridgeAnnotation(t *testing.T) {
	const annotation = "kubevirt.io/allow-pod-bridge-network-live-migration"
	of := map[string]func(metadata, spec string) string{
		PathValidateVMI: func(metadata, spec string) string {
			return `{"metadata": {"name": "i", "namespace": "demo", ` + metadata + `}, "spec": ` + spec + `}`
		},
		PathValidateVM: func(metadata, spec string) string {
			return `{"metadata": {"name": "m", "namespace": "demo"}, "spec": {"runStrategy": "Halted",
				"template": {"metadata": {` + metadata + `}, "spec": ` + spec + `}}}`
		},
		PathValidateVMIRS: func(metadata, spec string) string {
			return `{"metadata": {"name": "r", "namespace": "demo"}, "spec": {
				"selector": {"matchLabels": {"a": "b"}},
				"template": {"metadata": {"labels": {"a": "b"}, ` + metadata + `}, "spec": ` + spec + `}}}`
		},
	}
	for path, object := range of {
		for _, c := range []struct {
			value, binding string
			want           bool
		}{{"true", "bridge", true}, {"", "bridge", true}, {"true", "masquerade", false}} {
			spec := `{"architecture": "amd64", "domain": {"memory": {"guest": "64Mi"}, "devices": {"interfaces": [
				{"name": "default", "` + c.binding + `": {}}]}}, "networks": [{"name": "default", "pod": {}}]}`
			how := call{path: path, operation: admissionv1.Create}
			resp := ask(t, how, object(`"annotations": {"`+annotation+`": "`+c.value+`"}`, spec))
			require.True(t, resp.Allowed, "%s: %v", path, resp.Result)
			require.Equal(t, c.want, len(resp.Warnings) == 1 && strings.Contains(resp.Warnings[0], annotation), path)
			require.Empty(t, ask(t, how, object(`"annotations": {}`, spec)).Warnings)
		}
	}
}

// TestObsoleteGates: obsolete feature gates are accepted, with KubeVirt's warnings.
func TestObsoleteGates(t *testing.T) {
	resp := ask(t, call{path: PathValidateKubeVirt, operation: admissionv1.Update},
		`{"spec": {"configuration": {"developerConfiguration": {
			"featureGates": ["HostDisk", "LiveMigration", "Macvtap"]}}}}`)
	require.True(t, resp.Allowed, resp.Result)
	require.Equal(t, []string{
		`feature gate LiveMigration is deprecated (feature state is "General Availability"), therefore it can be ` +
			"safely removed and is redundant. For more info, please look at: " +
			"https://github.com/kubevirt/kubevirt/blob/main/docs/deprecation.md",
		"Macvtap network binding is discontinued since v1.3. Please refer to Kubevirt user guide for alternatives.",
	}, resp.Warnings)
}

// TestAcceptsOperatorSettings: the KubeVirt object of KubeVirt's release, and what Harvester and HCO add to it, is
// accepted. Each setting without effect is named.
func TestAcceptsOperatorSettings(t *testing.T) {
	resp := ask(t, call{path: PathValidateKubeVirt, operation: admissionv1.Update}, `{"spec": {
		"certificateRotateStrategy": {"selfSigned": {"ca": {"duration": "48h"}}},
		"customizeComponents": {"patches": [{"resourceName": "virt-api", "resourceType": "Deployment", "patch": "{}",
			"type": "strategic"}]},
		"imagePullPolicy": "IfNotPresent", "infra": {"replicas": 2}, "uninstallStrategy": "BlockUninstallIfWorkloadsExist",
		"monitorAccount": "rancher-monitoring", "monitorNamespace": "cattle-monitoring-system", "productName": "hco",
		"configuration": {
			"imagePullPolicy": "Always", "handlerConfiguration": {"restClient": {"rateLimiter": {"tokenBucketRateLimiter":
				{"qps": 1, "burst": 2}}}},
			"developerConfiguration": {"featureGates": ["HotplugVolumes", "Root", "Sidecar", "Snapshot"],
				"disabledFeatureGates": ["ImageVolume", "PasstBinding"], "minimumClusterTSCFrequency": 2000000000,
				"logVerbosity": {"virtAPI": 2, "virtHandler": 3, "nodeVerbosity": {"node1": 4}}}},
		"workloadUpdateStrategy": {}}}`)
	require.True(t, resp.Allowed, resp.Result)
	const byManifests = " has no effect: virtflow's processes are deployed by its manifests, which no operator changes: " +
		"edit those"
	const byLogFlag = " has no effect: node workers do not read the KubeVirt object: set their flag `--log-level`"
	require.ElementsMatch(t, []string{
		"spec.certificateRotateStrategy.selfSigned has no effect: virtflow rotates its certificates in intervals of its own",
		"spec.uninstallStrategy has no effect: no operator deletes virtflow: see docs/uninstall.md",
		"spec.customizeComponents.patches" + byManifests, "spec.imagePullPolicy" + byManifests, "spec.infra" + byManifests,
		"spec.monitorAccount" + byManifests, "spec.monitorNamespace" + byManifests, "spec.productName" + byManifests,
		"spec.configuration.handlerConfiguration" + byManifests,
		"spec.configuration.developerConfiguration.logVerbosity.virtHandler" + byLogFlag,
		"spec.configuration.developerConfiguration.logVerbosity.nodeVerbosity" + byLogFlag,
		"HotplugVolumes has been deprecated since v1.9.0 and has been replaced by DeclarativeHotplugVolumes",
		"spec.configuration.developerConfiguration.minimumClusterTSCFrequency has no effect: no guest has a fixed " +
			"frequency of its time stamp counter",
		"feature gate Root has no effect in virtflow", "feature gate Snapshot has no effect in virtflow",
		"disabling the feature gate ImageVolume has no effect in virtflow",
	}, resp.Warnings)

	resp = ask(t, call{path: PathValidateKubeVirt, operation: admissionv1.Update},
		`{"spec": {"configuration": {"migrations": {"network": "moves"}}}}`)
	require.True(t, resp.Allowed, resp.Result)
	require.Len(t, resp.Warnings, 1)
	require.Contains(t, resp.Warnings[0], "spec.configuration.migrations.network: no operator adds this network")

	resp = ask(t, call{path: PathValidateKubeVirt, operation: admissionv1.Update}, `{"spec": {"imageTag": "v1",
		"configuration": {"ksmConfiguration": {}, "developerConfiguration": {"featureGates": ["NoSuchGate"]}}}}`)
	require.False(t, resp.Allowed)
	require.Len(t, resp.Result.Details.Causes, 2, "settings that would change guests, and unknown gates, are refused")
}
