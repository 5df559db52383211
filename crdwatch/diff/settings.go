package diff

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/watch"
)

// sendSettings sends the nodes which have begun or ceased to be drained because the KubeVirt object names another
// taint. All others differ as well, also if the object names other CPU models, and the resyncer sends them.
func (d *Differ) sendSettings(*kubevirt.KubeVirt) {
	settings := d.informers.NodeSettings()
	if d.settings != nil && d.settings.IsSame(settings) {
		return // control workers write its status now and again
	}
	d.settings = &settings
	paced := false
	for _, node := range watch.List[*corev1.Node](d.informers.Nodes) {
		last, known := d.recallNode(node)
		switch {
		case !known: // it is on its way already
		case settings.IsDrained(node) != last.Drain:
			d.entities.node.sendChanged(node.Name, change)
		case !settings.IsOf(last):
			paced = true
		}
	}
	if paced {
		select {
		case d.settingsChanged <- struct{}{}:
		default: // they are due already
		}
	}
}

func (d *Differ) recallNode(node *corev1.Node) (last contract.NodeObservation, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return recall(d.record, d.entities.node.kind, string(node.UID))
}

// sendUnchanged sends the nodes that were sent with another drain taint, or other obsolete CPU models, than the
// KubeVirt object names, as fast as control workers process them: nothing waits for their labels, or for the name of a
// taint.
func (d *Differ) sendUnchanged(ctx context.Context) error {
	for _, node := range watch.List[*corev1.Node](d.informers.Nodes) {
		last, known := d.recallNode(node)
		if !known || d.informers.NodeSettings().IsOf(last) {
			continue
		}
		if err := d.queue.Throttle(ctx, contract.NodeID(node.Name)); err != nil {
			return err
		}
		d.entities.node.sendChanged(node.Name, resync)
	}
	return nil
}
