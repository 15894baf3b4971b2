#!/bin/bash
# The map of docs/architecture.md names every file of these folders, and only files that exist.
# Prints TAP.  Run from the top of the sources.

folders=$(sed -n 's/^### \(`.*\)$/\1/p' docs/architecture.md | grep -o '`[a-z/_]*`' | tr -d '`')
status=0

# The names that the table under a folder's heading lists, without backquotes.
names_of() {
    awk -v folder="\`$1\`" '
        /^#/ { inside = index($0, "### ") == 1 && index($0, folder) }
        inside && /^\| `/ { print }' docs/architecture.md | cut -d'|' -f2 | grep -o '`[^`]*`' | tr -d '`'
}

# say "what is wrong" names ...
say() {
    [ $# -gt 1 ] || return 0
    status=1
    printf '# %s\n' "$@"
}

missing=()
listed=()
for folder in $folders; do
    names=$(names_of "$folder")
    for file in "$folder"/*; do
        [ -f "$file" ] || continue
        name=${file##*/}
        case $name in *.o | *.so | *.bc | *.d | gkmeans--*.sql) continue ;; esac
        listed+=("$folder $name" "$folder ${name%.*}")
        grep -qxF -e "$name" -e "${name%.*}" <<< "$names" || missing+=("$file")
    done
done
for folder in src/* kernels kernels/*/; do
    [ -d "$folder" ] && ! grep -qxF "${folder%/}" <<< "$folders" && missing+=("${folder%/}")
done
gone=()
for heading in $(grep '^### `' docs/architecture.md | tr -d '`:' | sed 's/^### //; s/ and /+/; s/ .*//'); do
    for name in $(names_of "${heading%%+*}"); do
        found=false
        for folder in ${heading//+/ }; do
            printf '%s\n' "${listed[@]}" | grep -qxF "$folder $name" && found=true
        done
        $found || gone+=("$heading $name")
    done
done
say 'on no map:' "${missing[@]}"
say 'on the map, but not there:' "${gone[@]}"
[ $status -eq 0 ] && echo 'ok 1 - docs/architecture.md names every file and no other' ||
    echo 'not ok 1 - docs/architecture.md names every file and no other'
echo '1..1'
