package subresources

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// serveOpenAPI registers the description of the API in both of its versions, and the list of all paths.
func (s *Service) serveOpenAPI(paths []string) error {
	v2 := handler.NewOpenAPIService(s.describe(versions()))
	mux := opened{s}
	v2.RegisterOpenAPIVersionedService("/openapi/v2", mux)
	v3 := handler3.NewOpenAPIService()
	for _, v := range versions() {
		group := "apis/" + Group + "/" + v
		v3.UpdateGroupVersion(group, openapiconv.ConvertV2ToV3(s.describe([]string{v})))
		paths = append(paths, "/openapi/v3/"+group)
	}
	if err := v3.RegisterOpenAPIV3VersionedService("/openapi/v3", mux); err != nil {
		return fmt.Errorf("registering the OpenAPI description: %w", err)
	}
	paths = append(paths, "/healthz", "/openapi/v2", "/openapi/v3")
	s.open[""] = serveJSON(map[string][]string{"paths": paths})
	return nil
}

// opened registers kube-openapi's handlers among the open paths.
type opened struct{ s *Service }

// Handle registers one path.
func (o opened) Handle(path string, h http.Handler) { o.s.open[path] = h.ServeHTTP }

// HandlePrefix registers the description of each version, which are all the paths below the prefix.
func (o opened) HandlePrefix(prefix string, h http.Handler) {
	for _, v := range versions() {
		o.s.open[prefix+"apis/"+Group+"/"+v] = h.ServeHTTP
	}
}

// describe returns the table of routes as OpenAPI v2.
func (s *Service) describe(versions []string) *spec.Swagger {
	swagger := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0",
		Info: &spec.Info{InfoProps: spec.InfoProps{
			Title: "KubeVirt API", Description: "Subresources of virtual machines, served by virtflow.",
			Version: s.gitVersion(),
		}},
		Paths:       &spec.Paths{Paths: map[string]spec.PathItem{}},
		Definitions: definitions(),
	}}
	for _, version := range versions {
		for _, r := range s.table() {
			for path, parameters := range r.templates(version) {
				swagger.Paths.Paths[path] = r.describe(version, parameters)
			}
		}
	}
	return swagger
}

// templates returns the paths of a route, each with the names of its path parameters.
func (r Route) templates(version string) map[string][]string {
	path := "/apis/" + Group + "/" + version + "/namespaces/{namespace}/" + r.Resource
	names := []string{"namespace"}
	if r.Subresource != "" {
		path += "/{name}/" + r.Subresource
		names = append(names, "name")
	}
	all := map[string][]string{}
	for n, rest := range []string{"port", "protocol"} {
		if n >= r.LeastRest && n <= r.MostRest {
			all[path] = names
		}
		if n < r.MostRest {
			path += "/{" + rest + "}"
			names = append(append([]string{}, names...), rest)
		}
	}
	if r.MostRest == 2 {
		all[path] = names
	}
	return all
}

func (r Route) describe(version string, parameters []string) spec.PathItem {
	words := append([]string{version, strings.ToLower(r.Method), r.path()}, parameters[min(2, len(parameters)):]...)
	operation := &spec.Operation{
		OperationProps: spec.OperationProps{ID: strings.NewReplacer("/", "-").Replace(strings.Join(words, "-"))}}
	operation.Produces = []string{cmp.Or(r.Produces, "application/json")}
	for _, p := range parameters {
		operation.Parameters = append(operation.Parameters, spec.Parameter{
			ParamProps:   spec.ParamProps{Name: p, In: "path", Required: true},
			SimpleSchema: spec.SimpleSchema{Type: "string"},
		})
	}
	for _, p := range r.Query {
		operation.Parameters = append(operation.Parameters, spec.Parameter{
			ParamProps:   spec.ParamProps{Name: p, In: "query"},
			SimpleSchema: spec.SimpleSchema{Type: "boolean"},
		})
	}
	if body, ok := bodies()[r.path()]; ok {
		operation.Consumes = []string{"*/*"}
		operation.Parameters = append(operation.Parameters, spec.Parameter{ParamProps: spec.ParamProps{
			Name: "body", In: "body", Schema: spec.RefSchema("#/definitions/" + definition(body)),
		}})
	}
	responses := map[int]spec.Response{
		r.success():             {ResponseProps: spec.ResponseProps{Description: http.StatusText(r.success())}},
		http.StatusUnauthorized: {ResponseProps: spec.ResponseProps{Description: "Unauthorized"}},
	}
	operation.Responses = &spec.Responses{ResponsesProps: spec.ResponsesProps{StatusCodeResponses: responses}}
	if r.Method == http.MethodPut {
		return spec.PathItem{PathItemProps: spec.PathItemProps{Put: operation}}
	}
	return spec.PathItem{PathItemProps: spec.PathItemProps{Get: operation}}
}

// bodies returns the kind of object that a request carries.
func bodies() map[string]string {
	const vm, vmi = virtualMachines + "/", virtualMachineInstances + "/"
	return map[string]string{
		vm + "start": "StartOptions", vm + "stop": "StopOptions", vm + "restart": "RestartOptions",
		vm + "migrate":   "MigrateOptions",
		vm + "addvolume": "AddVolumeOptions", vm + "removevolume": "RemoveVolumeOptions",
		vmi + "addvolume": "AddVolumeOptions", vmi + "removevolume": "RemoveVolumeOptions",
		vm + "memorydump": "VirtualMachineMemoryDumpRequest", vm + "evacuate/cancel": "EvacuateCancelOptions",
		vmi + "evacuate/cancel": "EvacuateCancelOptions", vmi + "pause": "PauseOptions",
		vmi + "unpause": "UnpauseOptions",
		vmi + "freeze":  "FreezeUnfreezeTimeout", vmi + "sev/setupsession": "SEVSessionOptions",
		vmi + "sev/injectlaunchsecret": "SEVSecretOptions",
		expandVMSpec:                   "VirtualMachine",
	}
}

func definition(kind string) string { return "v1." + kind }

// definitions returns the kinds that requests carry, under KubeVirt's names.
func definitions() spec.Definitions {
	text, flag, number, object := *spec.StringProperty(), *spec.BoolProperty(), *spec.Int64Property(),
		spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	texts := *spec.ArrayProperty(spec.StringProperty())
	kinds := map[string]map[string]spec.Schema{
		"StartOptions":   {"paused": flag, "dryRun": texts},
		"StopOptions":    {"gracePeriod": number, "dryRun": texts},
		"RestartOptions": {"gracePeriodSeconds": number, "dryRun": texts},
		"MigrateOptions": {"addedNodeSelector": *spec.MapProperty(spec.StringProperty()),
			"dryRun": texts},
		"AddVolumeOptions":                {"name": text, "disk": object, "volumeSource": object, "dryRun": texts},
		"RemoveVolumeOptions":             {"name": text, "dryRun": texts},
		"VirtualMachineMemoryDumpRequest": {"claimName": text},
		"EvacuateCancelOptions":           {"evacuationNodeName": text, "dryRun": texts},
		"PauseOptions":                    {"dryRun": texts},
		"UnpauseOptions":                  {"dryRun": texts},
		"FreezeUnfreezeTimeout":           {"unfreezeTimeout": text},
		"SEVSessionOptions":               {"session": text, "dhCert": text},
		"SEVSecretOptions":                {"header": text, "secret": text},
		"VirtualMachine": {"apiVersion": text, "kind": text, "metadata": object, "spec": object,
			"status": object},
	}
	all := spec.Definitions{}
	for kind, properties := range kinds {
		all[definition(kind)] = spec.Schema{
			SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}}
	}
	return all
}
