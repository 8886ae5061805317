"""YAML with places and limits: what a document may become is counted before anything is made of it."""

from .common import Failure, Place

MAX_BYTES = 256 << 10
MAX_DEPTH = 40
MAX_NODES = 50000


class Map(dict):
    """A mapping with string keys, each with the line where it stands."""

    def __init__(self):
        super().__init__()
        self.lines = {}


def load(conversion, path):
    """The document in a file, as Map, list, str, int, float, bool and None."""
    try:
        import yaml
    except ImportError:
        raise Failure(Place(str(path)), "YAML needs the Debian package python3-yaml") from None
    text = conversion.read(path)
    if len(text.encode()) > MAX_BYTES:
        raise Failure(Place(str(path)), f"is longer than {MAX_BYTES} bytes of YAML")
    try:
        count(yaml, text, path)
        return Builder(yaml, path).build(yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Failure(Place(str(path), mark.line + 1 if mark else 0), f"is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise Failure(Place(str(path)), f"is not YAML: {str(error).splitlines()[0]}") from None


def count(yaml, text, path):
    """Refuses a document that is nested deeply, or is large with its aliases written out."""
    sizes, opened, total = {}, [], 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        place = Place(str(path), event.start_mark.line + 1)
        size = 1
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
            if len(opened) > MAX_DEPTH:
                raise Failure(place, f"is nested more than {MAX_DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = total - before + 1
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise Failure(place, f"the alias {event.anchor[:100]} is not known here")
            size = sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent) and event.anchor:
            sizes[event.anchor] = 1
        total += size
        if total > MAX_NODES:
            raise Failure(place, f"has more than {MAX_NODES} values with its aliases written out")


class Builder:
    """Makes values of nodes; those of other than JSON's types stay text."""

    def __init__(self, yaml, path):
        self.yaml, self.path, self.constructor = yaml, path, yaml.constructor.SafeConstructor()

    def place(self, node):
        return Place(str(self.path), node.start_mark.line + 1)

    def build(self, node):
        if node is None:
            return None
        if isinstance(node, self.yaml.SequenceNode):
            return [self.build(child) for child in node.value]
        if isinstance(node, self.yaml.MappingNode):
            return self.build_map(node)
        kind = node.tag.rpartition(":")[2]
        if kind not in ("int", "float", "bool", "null"):
            return self.plain(node, node.value)
        # As in YAML 1.2, yes and 1:30 are text. So is a number of more digits than one has use for.
        if len(node.value) > 40 or (kind == "bool" and node.value.lower() not in ("true", "false")) or (kind in ("int", "float") and ":" in node.value):
            return self.plain(node, node.value)
        try:
            return self.constructor.construct_object(node)
        except (ValueError, KeyError, OverflowError, self.yaml.YAMLError):
            raise Failure(self.place(node), f"{node.value[:100]!r} is not a number") from None

    def plain(self, node, text):
        """Text that can be written down and handed on."""
        if "\0" in text:
            raise Failure(self.place(node), "has a NUL byte")
        if any("\ud800" <= letter < "\ue000" for letter in text):
            raise Failure(self.place(node), "is not UTF-8")
        return text

    def build_map(self, node):
        made, merged = Map(), []
        for key, value in node.value:
            if not isinstance(key, self.yaml.ScalarNode):
                raise Failure(self.place(key), "a key is not a string")
            if key.value == "<<":
                merged += value.value if isinstance(value, self.yaml.SequenceNode) else [value]
                continue
            if key.value in made:
                raise Failure(self.place(key), f"the key {key.value[:100]} occurs twice")
            made[key.value] = self.build(value)
            made.lines[key.value] = key.start_mark.line + 1
        for other in merged:
            if not isinstance(other, self.yaml.MappingNode):
                raise Failure(self.place(other), "<< takes a mapping")
            below = self.build_map(other)
            for key in below:
                if key not in made:
                    made[key], made.lines[key] = below[key], below.lines[key]
        return made
