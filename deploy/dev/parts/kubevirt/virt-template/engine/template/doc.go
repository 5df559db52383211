// Package template has the functions by which virtctl makes virtual machines of templates. All of them fail: this module
// replaces kubevirt.io/virt-template-engine, which the module proxies do not serve.
package template
