package diff

import corev1 "k8s.io/api/core/v1"

// nodeRepeats has the versions of nodes of which one observation has been sent in this leadership, by UID. The entity
// may know a newer version from the leader before. Then it ignores whether that observation counts the node's taint as
// the drain taint, and where the taint's key has changed, the first observation of the newer version repeats that: it
// differs in nothing else.
type nodeRepeats map[string]string

// isDue reports whether a node is to be sent again: once, as soon as its version has changed, and only if it has
// taints.
func (r nodeRepeats) isDue(node *corev1.Node, known bool) bool {
	uid := string(node.UID)
	if !known {
		r[uid] = node.ResourceVersion
		return false
	}
	first, pending := r[uid]
	if !pending || first == node.ResourceVersion {
		return false
	}
	delete(r, uid)
	return len(node.Spec.Taints) > 0
}
