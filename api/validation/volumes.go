package validation

import (
	"encoding/base64"
	"path"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxInlineCloudInit is KubeVirt's limit for user data that stands in the object itself.
const maxInlineCloudInit = 2048

func (s subject) volume(i int) *field.Path { return s.path.Child("volumes").Index(i) }

func volumeNames(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	first := map[string]int{}
	for i, v := range s.spec.Volumes {
		if j, ok := first[v.Name]; ok {
			causes = append(causes, invalid(s.volume(i).Child("name"), "%s and %s must not have the same Name.", s.volume(i), s.volume(j))...)
			continue
		}
		first[v.Name] = i
	}
	return causes
}

func volumeSources(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i := range s.spec.Volumes {
		sources := 0
		// Every field of a volume's source is one kind of source.
		v := reflect.ValueOf(s.spec.Volumes[i].VolumeSource)
		for f := range v.NumField() {
			if !v.Field(f).IsNil() {
				sources++
			}
		}
		if sources != 1 {
			causes = append(causes, invalid(s.volume(i), "%s must have exactly one source type set", s.volume(i))...)
		}
	}
	return causes
}

// cloudInitData is one of the two payloads of a cloud-init volume in its three forms.
type cloudInitData struct {
	kind   string // as in messages
	inline string
	base64 string
	secret bool
	field  string // JSON name of the base64 form
}

func cloudInit(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i := range s.spec.Volumes {
		v := &s.spec.Volumes[i]
		p := s.volume(i)
		if c := v.CloudInitNoCloud; c != nil {
			causes = append(causes, cloudInitSource(p.Child("cloudInitNoCloud"),
				cloudInitData{"userdata", c.UserData, c.UserDataBase64, c.UserDataSecretRef != nil, "userDataBase64"},
				cloudInitData{"networkdata", c.NetworkData, c.NetworkDataBase64, c.NetworkDataSecretRef != nil, "networkDataBase64"})...)
		}
		if c := v.CloudInitConfigDrive; c != nil {
			causes = append(causes, cloudInitSource(p.Child("cloudInitConfigDrive"),
				cloudInitData{"userdata", c.UserData, c.UserDataBase64, c.UserDataSecretRef != nil, "userDataBase64"},
				cloudInitData{"networkdata", c.NetworkData, c.NetworkDataBase64, c.NetworkDataSecretRef != nil, "networkDataBase64"})...)
		}
	}
	return causes
}

func cloudInitSource(p *field.Path, payloads ...cloudInitData) []metav1.StatusCause {
	var causes []metav1.StatusCause
	total := 0
	for _, d := range payloads {
		forms, size := 0, 0
		if d.inline != "" {
			forms++
			size = len(d.inline)
		}
		if d.base64 != "" {
			forms++
			decoded, err := base64.StdEncoding.DecodeString(d.base64)
			if err != nil {
				// The doubled path is KubeVirt's.
				full := p.Child(d.field)
				causes = append(causes, invalid(full, "%s.%s.%s is not a valid base64 value.", full, lastOf(p), d.field)...)
			}
			size = len(decoded)
		}
		if d.secret {
			forms++
		}
		if forms > 1 {
			causes = append(causes, invalid(p, "%s must have only one %s set.", p, d.kind+"source")...)
		}
		if size > maxInlineCloudInit {
			causes = append(causes, invalid(p, "%s %s exceeds %d byte limit. Should use %s for larger data.", p, d.kind, maxInlineCloudInit, secretField(d.kind))...)
		}
		total += forms
	}
	if total == 0 {
		causes = append(causes, invalid(p, "%s must have at least one userdatasource or one networkdatasource set.", p)...)
	}
	return causes
}

func lastOf(p *field.Path) string {
	s := p.String()
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return s[i+1:]
		}
	}
	return s
}

func secretField(kind string) string {
	if kind == "userdata" {
		return "UserDataSecretRef"
	}
	return "NetworkDataSecretRef"
}

func containerDiskPaths(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, v := range s.spec.Volumes {
		if v.ContainerDisk == nil || v.ContainerDisk.Path == "" {
			continue
		}
		p := s.volume(i).Child("containerDisk")
		switch at := v.ContainerDisk.Path; {
		case at == "/":
			causes = append(causes, invalid(p, "%s must not point to root", p)...)
		case !path.IsAbs(at) || path.Clean(at) != strings.TrimSuffix(at, "/"):
			causes = append(causes, invalid(p, "%s must be an absolute path to a file without relative components", p)...)
		}
	}
	return causes
}
