// Package hardware has facts about guests' hardware that several processes share: the cluster's settings for every
// guest, which control workers write into the launcher's pod and the launcher builds into the domain, and the hardware
// of a guest for which its pod needs resources.
package hardware
