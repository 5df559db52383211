package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// object is one version of an object. It is encoded when it is stored, and is not altered from then on.
type object struct {
	kind    *kind
	meta    metav1.ObjectMeta
	content map[string]any // all but kind, apiVersion and metadata
	encoded []byte
}

func (o *object) key() string { return key(o.meta.Namespace, o.meta.Name) }

func key(namespace, name string) string { return namespace + "/" + name }

// decode reads the body of a request, or the result of a patch. Core kinds are decoded with their Go types, as the real
// server does.
func decode(k *kind, body []byte) (*object, error) {
	if !k.custom {
		typed := k.empty()
		if err := json.Unmarshal(body, typed); err != nil {
			return nil, err
		}
		var err error
		if body, err = json.Marshal(typed); err != nil {
			return nil, err
		}
	}
	var content map[string]any
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, err
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, err
	}
	if head.Kind != "" && head.Kind != k.name || head.APIVersion != "" && head.APIVersion != k.apiVersion() {
		return nil, fmt.Errorf("the object provided is %s, %s, and not %s, %s", head.APIVersion, head.Kind,
			k.apiVersion(), k.name)
	}
	for _, field := range []string{"kind", "apiVersion", "metadata"} {
		delete(content, field)
	}
	head.Metadata.ManagedFields = nil
	return &object{kind: k, meta: head.Metadata, content: content}, nil
}

// with returns a copy with another content of one field; nil removes it.
func (o *object) with(field string, value any) *object {
	out := o.clone()
	out.content = maps.Clone(o.content)
	if value == nil {
		delete(out.content, field)
	} else {
		out.content[field] = value
	}
	return out
}

// clone copies metadata and the map of fields; the fields' contents are shared.
func (o *object) clone() *object {
	return &object{kind: o.kind, meta: *o.meta.DeepCopy(), content: maps.Clone(o.content)}
}

// encode returns the object as JSON.
func (o *object) encode() []byte {
	if o.encoded != nil {
		return o.encoded
	}
	all := maps.Clone(o.content)
	if all == nil {
		all = map[string]any{}
	}
	all["kind"], all["apiVersion"], all["metadata"] = o.kind.name, o.kind.apiVersion(), o.meta
	b, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("encoding %s %s: %v", o.kind.name, o.key(), err)) // it was decoded from JSON
	}
	o.encoded = b
	return b
}

// typed returns a copy as Go type.
func (o *object) typed() runtime.Object {
	out := o.kind.empty()
	o.into(out)
	return out
}

func (o *object) into(out runtime.Object) {
	if err := json.Unmarshal(o.encode(), out); err != nil {
		panic(fmt.Sprintf("%s %s has become something that its Go type cannot hold: %v", o.kind.name, o.key(), err))
	}
}

// isSame reports whether two versions do not differ in anything that is stored.
func isSame(a, b *object) bool {
	x, y := a.clone(), b.clone()
	y.meta.ResourceVersion = x.meta.ResourceVersion
	return bytes.Equal(x.encode(), y.encode())
}
