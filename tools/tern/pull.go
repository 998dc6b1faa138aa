package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/tools/pull"
)

// Environment variables of downloads.
const (
	modelsVariable  = "TERN_MODELS"  // the folder of pulled models
	mirrorsVariable = "TERN_MIRRORS" // servers, a list with commas
	offlineVariable = "TERN_OFFLINE" // not empty: nothing is downloaded
	tokenVariable   = "HF_TOKEN"     // for repositories that are not public
)

// puller is what the environment asks for.
func (a *app) puller() (*pull.Puller, error) {
	p := &pull.Puller{Dir: os.Getenv(modelsVariable), Token: os.Getenv(tokenVariable), Offline: os.Getenv(offlineVariable) != ""}
	if p.Dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("%s names no folder for models: %w", modelsVariable, err)
		}
		p.Dir = filepath.Join(cache, "tern", "models")
	}
	for m := range strings.SplitSeq(os.Getenv(mirrorsVariable), ",") {
		if m = strings.TrimSpace(m); m != "" {
			p.Mirrors = append(p.Mirrors, m)
		}
	}
	return p, nil
}

// pulled finds the file of a model that goes by a name, or returns the error of what is
// no file either.
func (a *app) pulled(name string, missing error) (string, error) {
	ref, err := pull.ParseName(name)
	if err != nil {
		return "", missing
	}
	p, err := a.puller()
	if err != nil {
		return "", err
	}
	path, err := p.Find(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w; if it is the name of a model, 'tern pull %s' downloads it", missing, name)
	}
	return path, err
}

var sha256Text = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)

func (a *app) pullCommand() *cobra.Command {
	var sum string
	var offline, check bool
	cmd := &cobra.Command{
		Use:   "pull MODEL",
		Short: "Download a model",
		Long: "Download a model by its short name, or OWNER/REPOSITORY[/FILE][@REVISION] of a Hugging Face server, and print its path. Of a\n" +
			"repository the file that this build runs best is taken. A download that broke off goes on where it was; a file gets\n" +
			"its name when its SHA-256 is right. Other commands take MODEL instead of a path.\n\n" +
			"Short names:\n  " + strings.Join(pull.Names(), "\n  ") + "\n\n" +
			"Environment: " + modelsVariable + " is the folder (default: tern/models in the user's cache folder), " + mirrorsVariable + " a list of servers with\n" +
			"commas (default: " + pull.DefaultMirror + "), " + tokenVariable + " a token for them; " + offlineVariable + "=1 is --offline.",
		Example: `  tern pull bonsai-1.7b
  tern run bonsai-1.7b "Why is the sky blue?"
  TERN_MIRRORS=https://mirror.example tern pull prism-ml/Ternary-Bonsai-8B-gguf`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: interruptible(func(ctx context.Context, args []string) error {
			ref, err := pull.ParseName(args[0])
			if err != nil {
				return usageError{err}
			}
			if sum != "" && !sha256Text.MatchString(sum) {
				return usagef("--sha256 %q: want 64 hexadecimal digits", sum)
			}
			p, err := a.puller()
			if err != nil {
				return err
			}
			p.SHA256, p.Offline = sum, p.Offline || offline
			p.Log = func(text string) { fmt.Fprintln(a.err, text) }
			if progress := a.progress("downloading", true); progress != nil {
				p.Progress = func(done, total int64) { progress(uint64(done), uint64(max(total, 0))) }
			}
			path, err := p.Pull(ctx, ref)
			if err != nil {
				return err
			}
			if check {
				if err := pull.Check(path); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(a.out, path)
			return err
		}),
	}
	cmd.Flags().StringVar(&sum, "sha256", "", "SHA-256 that the file must have, for servers that do not tell it")
	cmd.Flags().BoolVar(&offline, "offline", false, "only look for the model in the folder")
	cmd.Flags().BoolVar(&check, "check", false, "read the file again and compare its SHA-256")
	return cmd
}
