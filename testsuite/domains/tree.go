package domains

import (
	stdxml "encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// element is one of an XML document.
type element struct {
	name     string
	attrs    map[string]string
	text     string
	children []*element
}

func parse(document string) (*element, error) {
	root := &element{}
	open := []*element{root}
	for in := stdxml.NewDecoder(strings.NewReader(document)); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading a domain's XML: %w", err)
		}
		top := open[len(open)-1]
		switch t := token.(type) {
		case stdxml.StartElement:
			e := &element{name: t.Name.Local, attrs: map[string]string{}}
			for _, a := range t.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			top.children = append(top.children, e)
			open = append(open, e)
		case stdxml.EndElement:
			open = open[:len(open)-1]
		case stdxml.CharData:
			top.text += strings.TrimSpace(string(t))
		}
	}
	if len(root.children) != 1 {
		return nil, errors.New("reading a domain's XML: there is not one element at the top")
	}
	return root.children[0], nil
}

// all returns the elements at a path such as os/type.
func (e *element) all(path string) []*element {
	name, rest, deeper := strings.Cut(path, "/")
	var out []*element
	for _, c := range e.children {
		switch {
		case c.name != name:
		case deeper:
			out = append(out, c.all(rest)...)
		default:
			out = append(out, c)
		}
	}
	return out
}

// first returns the first element at a path, or an empty one.
func (e *element) first(path string) *element {
	if all := e.all(path); len(all) > 0 {
		return all[0]
	}
	return &element{attrs: map[string]string{}}
}

func (e *element) has(path string) bool { return len(e.all(path)) > 0 }

// drop removes elements at paths such as disk/source.
func (e *element) drop(paths ...string) {
	for _, path := range paths {
		name, rest, deeper := strings.Cut(path, "/")
		kept := e.children[:0]
		for _, c := range e.children {
			if c.name == name && deeper {
				c.drop(rest)
			}
			if c.name != name || deeper {
				kept = append(kept, c)
			}
		}
		e.children = kept
	}
}

// facts returns an element's facts, one for each attribute, text and empty element.
func (e *element) facts(at string) []string {
	var out []string
	for name, value := range e.attrs {
		out = append(out, at+"@"+name+"="+value)
	}
	if e.text != "" {
		out = append(out, at+"="+e.text)
	}
	if len(e.attrs) == 0 && e.text == "" && len(e.children) == 0 {
		out = append(out, at)
	}
	for _, c := range e.children {
		out = append(out, c.facts(at+"/"+c.name)...)
	}
	return out
}
