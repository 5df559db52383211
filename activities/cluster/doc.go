// Package cluster has the activities that talk to Kubernetes: what workflows decide, done to objects. They run on the
// control queue, mostly as local activities, so each does as few requests as it can, one after the other. What destroys
// something reads first what is true at that moment, and is refused unless that is certain; nothing else reads again
// what its input carries.
//
// Every activity may be run again after it has worked: names are derived from UIDs, what is there already is found,
// what is gone already is done, and a patch carries the UID and the resourceVersion that it was decided from.
//
// Permissions used, cluster-wide unless said otherwise:
//
//	kubevirt.io   virtualmachines                     get, patch
//	kubevirt.io   virtualmachines/status              patch
//	kubevirt.io   virtualmachines/finalizers          update   (blockOwnerDeletion on the instance)
//	kubevirt.io   virtualmachineinstances             get, list, create, delete, patch
//	kubevirt.io   virtualmachineinstances/finalizers  update   (blockOwnerDeletion on the pod)
//	kubevirt.io   virtualmachineinstancereplicasets             get
//	kubevirt.io   virtualmachineinstancereplicasets/status      patch
//	kubevirt.io   virtualmachineinstancereplicasets/finalizers  update   (blockOwnerDeletion on the instance)
//	kubevirt.io   virtualmachineinstancemigrations              get, list, create, delete, patch
//	kubevirt.io   virtualmachineinstancemigrations/status       patch
//	migrations.kubevirt.io  migrationpolicies         list, watch
//	apps          controllerrevisions                 get, list, create, delete
//	""            pods                                get, list, create, delete, patch
//	""            pods/status                         patch
//	""            pods/eviction                       create
//	""            persistentvolumeclaims              get, create   (of an instance that gets a pod)
//	cdi.kubevirt.io  datavolumes                      get, create   (of a VM with templates, or a volume that is one)
//	k8s.cni.cncf.io  network-attachment-definitions   get      (of an instance that names one)
//	""            secrets                             create
//	""            resourcequotas                      list     (of a namespace that refused a pod)
//	""            events                              create, list   (of a pod whose containers do not start)
//	""            nodes                               get, patch   (read before a drain moves or evicts)
//	""            namespaces                          get      (where a policy or the KubeVirt object asks for labels)
//	kubevirt.io   kubevirts (own namespace only)      get, list, watch
//	kubevirt.io   kubevirts/status (the same)         patch    (also by workers/control)
package cluster
