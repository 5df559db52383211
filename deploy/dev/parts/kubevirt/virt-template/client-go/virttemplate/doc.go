// Package virttemplate has a client for virtual machine templates, and for requests for them. Its module replaces
// kubevirt.io/virt-template-client-go, which the module proxies do not serve.
package virttemplate
