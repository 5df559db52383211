package base

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/internal/streams/migration"
)

const nodeWorker = "virtflow-node-worker"

// documents calls each for every manifest here, as JSON: the conversion resolves anchors.
func documents(t *testing.T, pattern string, each func(file string, asJSON []byte)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			doc, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			asJSON, err := yaml.YAMLToJSON(doc)
			require.NoError(t, err, file)
			if string(asJSON) != "null" {
				each(file, asJSON)
			}
		}
	}
}

// objects reads every manifest here, strictly: a field with a typing error fails.
func objects(t *testing.T, pattern string) []runtime.Object {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(s))
	require.NoError(t, kubevirtv1.AddToScheme(s))
	decoder := serializer.NewCodecFactory(s, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	documents(t, pattern, func(file string, asJSON []byte) {
		if filepath.Base(file) == "api-services.yaml" {
			return // its types' module brings half of the API server along; see TestAggregatedPI
		}
		o, _, err := decoder.Decode(asJSON, nil, nil)
		require.NoError(t, err, file)
		out = append(out, o)
	})
	return out
}

func templates(t *testing.T) map[string]corev1.PodTemplateSpec {
	out := map[string]corev1.PodTemplateSpec{}
	for _, o := range objects(t, "*.yaml") {
		switch o := o.(type) {
		case *appsv1.Deployment:
			out[o.Name] = o.Spec.Template
		case *appsv1.DaemonSet:
			out[o.Name] = o.Spec.Template
		}
	}
	require.Len(t, out, 5)
	return out
}

// TestPodsRunOnlyOnMD64: the images are built for Linux on amd64 only, and so are the guests of a node worker.
func TestPodsRunOnlyOnMD64(t *testing.T) {
	for name, template := range templates(t) {
		require.Equal(t, map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
			template.Spec.NodeSelector, name)
	}
}

func TestOnlyNodeWorkerIsPrivileged(t *testing.T) {
	for name, template := range templates(t) {
		pod := template.Spec
		require.Len(t, pod.Containers, 1)
		c := pod.Containers[0]
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
		require.NotNil(t, c.LivenessProbe, name)
		require.NotNil(t, c.ReadinessProbe, name)
		require.NotEmpty(t, c.Resources.Requests, name)
		require.Equal(t, "localhost/virtflow/"+c.Name+":dev", c.Image)
		if name == nodeWorker {
			require.True(t, *c.SecurityContext.Privileged)
			require.False(t, *pod.AutomountServiceAccountToken, "the node worker must not have a token")
			continue
		}
		require.True(t, *pod.SecurityContext.RunAsNonRoot, name)
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type, name)
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
		require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
		require.Nil(t, c.SecurityContext.Privileged, name)
		require.False(t, pod.HostNetwork || pod.HostPID || pod.HostIPC, name)
		for _, v := range pod.Volumes {
			require.Nil(t, v.HostPath, name)
		}
	}
}

// TestNodeWorkersReachTemporalOnlyByGateway: they have no certificate for Temporal, and a token that only the gateway
// accepts.
func TestNodeWorkersReachTemporalOnlyByGateway(t *testing.T) {
	pod := templates(t)[nodeWorker].Spec
	tokens := 0
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			require.Equal(t, "virtflow-node-access", v.Secret.SecretName,
				"it shows whom streams come to, and is no use for anything else")
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			require.Nil(t, s.Secret, v.Name)
			if s.ServiceAccountToken != nil {
				tokens++
				require.Equal(t, "virtflow-node-gateway", s.ServiceAccountToken.Audience)
				require.LessOrEqual(t, *s.ServiceAccountToken.ExpirationSeconds, int64(3600))
			}
		}
	}
	require.Equal(t, 1, tokens)
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		require.Empty(t, c.EnvFrom, "the address and the credentials of Temporal itself are no business of a node")
		for _, e := range c.Env {
			require.True(t, e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil, e.Name)
		}
	}
	require.Contains(t, pod.Containers[0].Args, "--temporal-address=virtflow-node-gateway.virtflow.svc:7233")
	for _, o := range objects(t, "network.yaml") {
		p, ok := o.(*networkingv1.NetworkPolicy)
		require.True(t, ok)
		if p.Name == "virtflow-node-gateway" {
			require.Equal(t, nodeWorker, p.Spec.Ingress[0].From[0].PodSelector.MatchLabels["app.kubernetes.io/name"])
			require.Nil(t, p.Spec.Ingress[0].From[0].NamespaceSelector, "node workers of virtflow's own namespace only")
			tokens++
		}
	}
	require.Equal(t, 2, tokens, "there is no network policy for the gateway")
}

// TestOnlyNodeWorkersSendGuests: the port for migrations is open to node workers of virtflow's own namespace, and they
// may connect to it.
func TestOnlyNodeWorkersSendGuests(t *testing.T) {
	only := func(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer) bool {
		if len(ports) != 1 || ports[0].Port.String() != "migration" {
			return false
		}
		require.Len(t, peers, 1)
		require.Nil(t, peers[0].NamespaceSelector)
		require.Nil(t, peers[0].IPBlock)
		require.Equal(t, nodeWorker, peers[0].PodSelector.MatchLabels["app.kubernetes.io/name"])
		return true
	}
	in, out := 0, 0
	for _, o := range objects(t, "*.yaml") {
		p, ok := o.(*networkingv1.NetworkPolicy)
		if !ok {
			continue
		}
		for _, r := range p.Spec.Ingress {
			if only(r.Ports, r.From) {
				in++
			}
		}
		for _, r := range p.Spec.Egress {
			if only(r.Ports, r.To) {
				out++
			}
		}
	}
	require.Equal(t, []int{1, 1}, []int{in, out})
	pod := templates(t)[nodeWorker].Spec
	require.True(t, slices.ContainsFunc(pod.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return p.Name == "migration" && p.ContainerPort == migration.Port
	}))
	require.Greater(t, *pod.TerminationGracePeriodSeconds, int64(300), "guests on their way get five minutes")
}

func TestNoRoleGivesMoreThanItNames(t *testing.T) {
	roles := 0
	for _, o := range objects(t, "*.yaml") {
		var rules []rbacv1.PolicyRule
		name := ""
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			rules, name = o.Rules, o.Name
		case *rbacv1.Role:
			rules, name = o.Rules, o.Name
		default:
			continue
		}
		roles++
		for _, r := range rules {
			for _, list := range [][]string{r.APIGroups, r.Resources, r.Verbs} {
				require.NotContains(t, list, "*", name)
				require.NotEmpty(t, list, name)
			}
			for _, v := range []string{"escalate", "bind", "impersonate"} {
				require.NotContains(t, r.Verbs, v, name)
			}
			if slices.Contains(r.Resources, "secrets") {
				require.True(t, len(r.ResourceNames) > 0 || slices.Equal(r.Verbs, []string{"create"}),
					"%s may read every Secret", name)
			}
		}
	}
	require.NotZero(t, roles)
}

func TestEveryProcessHasItsAccountAndNodeWorkerNoRole(t *testing.T) {
	accounts := map[string]bool{}
	for _, o := range objects(t, "*.yaml") {
		switch o := o.(type) {
		case *corev1.ServiceAccount:
			accounts[o.Name] = true
		case *rbacv1.ClusterRoleBinding:
			for _, s := range o.Subjects {
				require.NotEqual(t, nodeWorker, s.Name)
			}
		case *rbacv1.RoleBinding:
			for _, s := range o.Subjects {
				require.NotEqual(t, nodeWorker, s.Name)
			}
		}
	}
	for name, template := range templates(t) {
		require.Equal(t, name, template.Spec.ServiceAccountName)
		require.True(t, accounts[name], name)
	}
}

type hook struct {
	path       string
	policy     *admissionregistrationv1.FailurePolicyType
	timeout    *int32
	conditions []admissionregistrationv1.MatchCondition
	operations []admissionregistrationv1.OperationType
}

func operations(rules []admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.OperationType {
	var out []admissionregistrationv1.OperationType
	for _, r := range rules {
		out = append(out, r.Operations...)
	}
	return out
}

func TestWebhooksAreServedAndExemptVirtflow(t *testing.T) {
	served := admission.Handlers(admission.Options{})
	var hooks []hook
	called := func(name string, c admissionregistrationv1.WebhookClientConfig) string {
		path := *c.Service.Path
		if c.Service.Name == "kubernetes" && c.Service.Namespace == metav1.NamespaceDefault {
			path = strings.TrimPrefix(path, "/apis/"+subresources.Group+"/v1/admission")
			require.Contains(t, admission.AuthenticatedPaths(), path, name)
		} else {
			require.NotContains(t, admission.AuthenticatedPaths(), path, "%s: unauthenticated callers could call it", name)
		}
		return path
	}
	for _, o := range objects(t, "webhooks.yaml") {
		switch o := o.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			for _, w := range o.Webhooks {
				hooks = append(hooks, hook{called(w.Name, w.ClientConfig), w.FailurePolicy, w.TimeoutSeconds,
					w.MatchConditions, operations(w.Rules)})
			}
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			for _, w := range o.Webhooks {
				hooks = append(hooks, hook{called(w.Name, w.ClientConfig), w.FailurePolicy, w.TimeoutSeconds,
					w.MatchConditions, operations(w.Rules)})
			}
		}
	}
	require.Len(t, hooks, len(served))
	for _, h := range hooks {
		require.Contains(t, served, h.path)
		if h.path == admission.PathReport {
			require.Equal(t, admissionregistrationv1.Ignore, *h.policy, "a deletion must not depend on virtflow")
			require.Equal(t, int32(1), *h.timeout)
		} else {
			require.Equal(t, admissionregistrationv1.Fail, *h.policy)
			require.NotContains(t, h.operations, admissionregistrationv1.Delete, "%s: a deletion must not depend on virtflow",
				h.path)
		}
		require.LessOrEqual(t, *h.timeout, int32(10), "as KubeVirt's")
		require.Contains(t, h.conditions[0].Expression, "system:serviceaccount:virtflow:virtflow-control-worker")
		if slices.Contains(h.operations, admissionregistrationv1.Update) && slices.Contains([]string{
			admission.PathMutateVM, admission.PathMutateVMI, admission.PathMutateVMIRS, admission.PathValidateVM,
			admission.PathValidateVMIPatch,
			admission.PathValidateVMIRS, admission.PathMutateVMIM, admission.PathValidateVMIMUpdate,
			admission.PathValidatePolicy,
		}, h.path) {
			require.Equal(t, "something-to-look-at", h.conditions[len(h.conditions)-1].Name,
				"%s: the removal of a finalizer must not depend on virtflow", h.path)
		}
		if h.path == admission.PathValidateEviction {
			require.Contains(t, h.conditions[1].Expression, `request.name.startsWith("virt-launcher-")`,
				"others' pods never wait for virtflow")
		}
	}
}

func TestShippedConfigurationAndExampleAreSupported(t *testing.T) {
	for _, o := range append(objects(t, "configuration.yaml"), objects(t, "../examples/*.yaml")...) {
		switch o := o.(type) {
		case *kubevirtv1.KubeVirt:
			causes, err := support.Check(o.Spec, support.Configuration(), "spec")
			require.NoError(t, err)
			require.Empty(t, causes)
		case *kubevirtv1.VirtualMachine:
			causes, err := support.Check(o.Spec.Template.Spec, support.VMISpec(), "spec.template.spec")
			require.NoError(t, err)
			require.Empty(t, causes)
		case *corev1.Namespace:
			if strings.HasPrefix(o.Name, "demo") {
				require.Equal(t, "restricted", o.Labels["pod-security.kubernetes.io/enforce"])
			}
		}
	}
}

// TestAggregatedPI: the APIServices are those that the api server keeps its CA in.
func TestAggregatedPI(t *testing.T) {
	content, err := os.ReadFile("api-services.yaml")
	require.NoError(t, err)
	documents := bytes.Split(content, []byte("\n---\n"))
	require.Len(t, documents, 2)
	for i, version := range []string{"v1", "v1alpha3"} {
		var service struct {
			APIVersion string            `json:"apiVersion"`
			Kind       string            `json:"kind"`
			Metadata   metav1.ObjectMeta `json:"metadata"`
			Spec       struct {
				Group                string `json:"group"`
				Version              string `json:"version"`
				GroupPriorityMinimum int    `json:"groupPriorityMinimum"`
				VersionPriority      int    `json:"versionPriority"`
				Service              struct {
					Name      string `json:"name"`
					Namespace string `json:"namespace"`
					Port      int    `json:"port"`
				} `json:"service"`
			} `json:"spec"`
		}
		require.NoError(t, yaml.UnmarshalStrict(documents[i], &service))
		require.Equal(t, version+"."+subresources.Group, service.Metadata.Name)
		require.Equal(t, "virtflow", service.Metadata.Labels["app.kubernetes.io/part-of"], "whose it is")
		require.Equal(t, subresources.Group, service.Spec.Group)
		require.Equal(t, version, service.Spec.Version)
		require.Equal(t, "virtflow-api-server", service.Spec.Service.Name)
	}
}

// TestAccessToNodeWorkers: the CA's key stays with the API server, and no pod mounts it.
func TestAccessToNodeWorkers(t *testing.T) {
	const ca, leaf = "virtflow-access", "virtflow-node-access"
	mounts := map[string][]string{}
	for name, template := range templates(t) {
		for _, v := range template.Spec.Volumes {
			if v.Secret != nil {
				mounts[v.Secret.SecretName] = append(mounts[v.Secret.SecretName], name)
			}
		}
	}
	require.Empty(t, mounts[ca])
	require.Equal(t, []string{nodeWorker}, mounts[leaf])
	readers := map[string]bool{}
	for _, o := range objects(t, "*.yaml") {
		role, ok := o.(*rbacv1.Role)
		if !ok {
			continue
		}
		for _, r := range role.Rules {
			if slices.Contains(r.ResourceNames, ca) || slices.Contains(r.ResourceNames, leaf) {
				readers[role.Name] = true
				require.ElementsMatch(t, []string{"get", "list", "watch", "update"}, r.Verbs)
			}
		}
	}
	for _, o := range objects(t, "*.yaml") {
		if b, ok := o.(*rbacv1.RoleBinding); ok && readers[b.RoleRef.Name] {
			require.Len(t, b.Subjects, 1)
			require.Equal(t, "virtflow-api-server", b.Subjects[0].Name)
		}
	}
	require.Len(t, readers, 1)
}

// TestUninstallRemovesEverything: the manual names everything that is not deleted with the namespace. Definitions are
// deleted by their own manifests.
func TestUninstallRemovesEverything(t *testing.T) {
	manual, err := os.ReadFile("../../docs/uninstall.md")
	require.NoError(t, err)
	commands := strings.Split(string(manual), "\n")
	namespaced := []string{
		"ConfigMap", "DaemonSet", "Deployment", "KubeVirt", "NetworkPolicy", "PodDisruptionBudget", "Role",
		"RoleBinding", "Secret", "Service", "ServiceAccount",
	}
	seen := 0
	documents(t, "*.yaml", func(file string, asJSON []byte) {
		var o metav1.PartialObjectMetadata
		require.NoError(t, json.Unmarshal(asJSON, &o), file)
		require.NotEmpty(t, o.Kind, file)
		if slices.Contains(namespaced, o.Kind) {
			return
		}
		seen++
		require.True(t, slices.ContainsFunc(commands, func(line string) bool {
			words := strings.Fields(line)
			return len(words) > 3 && words[0] == "kubectl" &&
				slices.Contains(strings.Split(words[2], ","), strings.ToLower(o.Kind)) &&
				slices.Contains(words[3:], o.Name)
		}), "no command of docs/uninstall.md deletes %s %s", o.Kind, o.Name)
	})
	require.Greater(t, seen, 20)
}
