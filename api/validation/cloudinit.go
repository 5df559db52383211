package validation

import (
	"encoding/base64"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxInlineCloudInit is KubeVirt's limit, in bytes, for inline data in the object.
const maxInlineCloudInit = 2048

// payload is one of the two payloads of a cloud-init volume in its three forms.
type payload struct {
	kind, base64Field, secretField string
	sourceKind                     string // in messages
	inline, base64                 string
	secret                         *corev1.LocalObjectReference
}

func userData(inline, encoded string, secret *corev1.LocalObjectReference) payload {
	return payload{"userdata", "userDataBase64", "UserDataSecretRef", "userdatasource", inline, encoded, secret}
}

func networkData(inline, encoded string, secret *corev1.LocalObjectReference) payload {
	return payload{"networkdata", "networkDataBase64", "NetworkDataSecretRef", "networkdata source", inline, encoded,
		secret}
}

func cloudInit(s subject, i int) []metav1.StatusCause {
	v := &s.spec.Volumes[i]
	switch {
	case v.CloudInitNoCloud != nil:
		c := v.CloudInitNoCloud
		return cloudInitSource(s.volume(i), "cloudInitNoCloud",
			userData(c.UserData, c.UserDataBase64, c.UserDataSecretRef),
			networkData(c.NetworkData, c.NetworkDataBase64, c.NetworkDataSecretRef))
	case v.CloudInitConfigDrive != nil:
		c := v.CloudInitConfigDrive
		return cloudInitSource(s.volume(i), "cloudInitConfigDrive",
			userData(c.UserData, c.UserDataBase64, c.UserDataSecretRef),
			networkData(c.NetworkData, c.NetworkDataBase64, c.NetworkDataSecretRef))
	default:
		return nil
	}
}

func cloudInitSource(volume *field.Path, source string, payloads ...payload) []metav1.StatusCause {
	p := volume.Child(source)
	var causes []metav1.StatusCause
	total := 0
	for _, d := range payloads {
		forms, size := 0, 0
		if d.secret != nil && d.secret.Name != "" {
			forms++
		}
		if d.base64 != "" {
			forms++
			decoded, err := base64.StdEncoding.DecodeString(d.base64)
			if err != nil {
				// The doubled path is KubeVirt's.
				full := p.Child(d.base64Field)
				causes = append(causes, invalid(full, "%s.%s.%s is not a valid base64 value.", full, source,
					d.base64Field)...)
			}
			size = len(decoded)
		}
		if d.inline != "" {
			forms++
			size = len(d.inline)
		}
		if forms > 1 {
			causes = append(causes, invalid(p, "%s must have only one %s set.", p, d.sourceKind)...)
		}
		if size > maxInlineCloudInit {
			causes = append(causes, invalid(p, "%s %s exceeds %d byte limit. Should use %s for larger data.", p, d.kind,
				maxInlineCloudInit, d.secretField)...)
		}
		total += forms
	}
	if total == 0 {
		causes = append(causes, invalid(p, "%s must have at least one userdatasource or one networkdatasource set.",
			p)...)
	}
	return causes
}
