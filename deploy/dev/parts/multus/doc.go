// Package multus pins the versions of which Multus is built, which gives pods of the local cluster further networks.
package multus
