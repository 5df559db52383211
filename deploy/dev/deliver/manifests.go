package deliver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/credentials"
	"github.com/virtflow/virtflow/internal/pki"
)

const (
	// Namespace is where virtflow's own pods run.
	Namespace = "virtflow"
	// temporalSecret, with the name of a process, has what Temporal knows its pods by.
	temporalSecret = "virtflow-temporal-tls-"
)

// How long the parts of a deployment may take.
const (
	establishTime = 30 * time.Second
	rolloutTime   = 3 * time.Minute
)

// Deploy builds and imports the images, applies the manifests with exactly
// these images, and waits until every process of virtflow is rolled out.
func (d Delivery) Deploy(ctx context.Context) error {
	if err := d.refuseBeside(ctx, kubeVirtNamespace, "KubeVirt", "make deploy"); err != nil {
		return err
	}
	images, err := d.Images(ctx)
	if err != nil {
		return err
	}
	if err := d.applyNamespace(ctx); err != nil {
		return err
	}
	if err := d.applyCRDs(ctx); err != nil {
		return err
	}
	manifests, err := d.render(ctx, images)
	if err != nil {
		return err
	}
	if err := d.Cluster.Apply(ctx, manifests); err != nil {
		return err
	}
	return d.waitForRollouts(ctx)
}

// applyNamespace makes the namespace with the Secrets that the pods mount: they
// are the cluster's, not the manifests', as they are different in every installation.
func (d Delivery) applyNamespace(ctx context.Context) error {
	items := []any{map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": Namespace}}}
	for _, process := range credentials.TemporalClients() {
		secret, err := d.secret(process)
		if err != nil {
			return err
		}
		items = append(items, secret)
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return fmt.Errorf("encode the Secrets for Temporal: %w", err)
	}
	return d.Cluster.Apply(ctx, list)
}

// secret has a process's certificate for Temporal.
func (d Delivery) secret(process string) (map[string]any, error) {
	data := map[string]string{}
	files := map[string]string{"ca.crt": "ca.crt", "tls.crt": process + ".crt", "tls.key": process + ".key"}
	for key, file := range files {
		content, err := os.ReadFile(d.Cluster.Layout.PKI("temporal", file))
		if err != nil {
			return nil, fmt.Errorf("read a certificate for Temporal (make up makes it): %w", err)
		}
		data[key] = base64.StdEncoding.EncodeToString(content)
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data,
		"metadata": map[string]any{"name": temporalSecret + process, "namespace": Namespace},
	}, nil
}

// applyCRDs goes before everything else: an object of a new kind can only be applied once the kind is served.
func (d Delivery) applyCRDs(ctx context.Context) error {
	crds, err := d.Cluster.Run(ctx, nil, "kustomize", filepath.Join(d.Cluster.Layout.Repo, "deploy", "crds"))
	if err != nil {
		return err
	}
	if err := d.Cluster.Apply(ctx, crds); err != nil {
		return err
	}
	_, err = d.Cluster.Run(ctx, bytes.NewReader(crds), "wait", "--for=condition=Established", "--timeout",
		establishTime.String(), "-f", "-")
	return err
}

// render builds the overlay of the development cluster with the images' digests.
func (d Delivery) render(ctx context.Context, images []Image) ([]byte, error) {
	l := d.Cluster.Layout
	dir := l.Path("overlay")
	base, err := filepath.Rel(dir, filepath.Join(l.Repo, "deploy", "dev-overlay"))
	if err != nil {
		return nil, fmt.Errorf("find the manifests: %w", err)
	}
	overlay, err := kustomization(base, images)
	if err != nil {
		return nil, err
	}
	if err := pki.WriteFile(filepath.Join(dir, "kustomization.yaml"), overlay, 0o644); err != nil {
		return nil, err
	}
	manifests, err := d.Cluster.Run(ctx, nil, "kustomize", dir)
	if err != nil {
		return nil, err
	}
	return pin(manifests, images), nil
}

// kustomization refers to the manifests and says which digests their images get.
func kustomization(base string, images []Image) ([]byte, error) {
	digests := make([]any, len(images))
	for i, image := range images {
		digests[i] = map[string]string{"name": registry + image.Name, "digest": image.Digest}
	}
	// JSON is YAML, too.
	data, err := json.MarshalIndent(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{base}, "images": digests,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the overlay: %w", err)
	}
	return data, nil
}

// pin gives the images' digests also to references that kustomize does not know
// as such: the launcher's is a flag of the control worker.
func pin(manifests []byte, images []Image) []byte {
	for _, image := range images {
		reference := regexp.MustCompile(regexp.QuoteMeta(registry+image.Name+":"+newest) + `\b`)
		manifests = reference.ReplaceAllLiteral(manifests, []byte(image.Pinned()))
	}
	return manifests
}

func (d Delivery) waitForRollouts(ctx context.Context) error {
	out, err := d.Cluster.Run(ctx, nil, "-n", Namespace, "get", "deployments,daemonsets", "-o", "name")
	if err != nil {
		return err
	}
	start := time.Now()
	for name := range strings.FieldsSeq(string(out)) {
		if _, err := d.Cluster.Run(ctx, nil, "-n", Namespace, "rollout", "status", name, "--timeout",
			rolloutTime.String()); err != nil {
			return fmt.Errorf("%w\n%s", err, d.diagnosis())
		}
		d.printLine("  %5.1f s  %s is rolled out", time.Since(start).Seconds(), name)
	}
	d.printLine("virtflow is deployed in the namespace %s.", Namespace)
	return nil
}

// diagnosis shows the pods, and the end of the logs of those that are not ready.
func (d Delivery) diagnosis() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var text strings.Builder
	pods, err := d.Cluster.Run(ctx, nil, "-n", Namespace, "get", "pods", "-o", "wide")
	if err != nil {
		return err.Error()
	}
	text.Write(pods)
	for _, pod := range d.notReady(ctx) {
		logs, err := d.Cluster.Run(ctx, nil, "-n", Namespace, "logs", pod, "--all-containers", "--tail", "8")
		if err == nil {
			fmt.Fprintf(&text, "end of the log of %s:\n%s", pod, logs)
		}
	}
	return text.String()
}

type podList struct {
	Items []pod `json:"items"`
}

type pod struct {
	Metadata struct {
		Name   string            `json:"name"`
		UID    string            `json:"uid"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		ContainerStatuses []struct {
			Ready bool `json:"ready"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

func (d Delivery) notReady(ctx context.Context) []string {
	var pods podList
	if err := d.Cluster.Get(ctx, &pods, "-n", Namespace, "pods"); err != nil {
		return nil
	}
	var names []string
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			if !c.Ready {
				names = append(names, p.Metadata.Name)
				break
			}
		}
	}
	return names
}
