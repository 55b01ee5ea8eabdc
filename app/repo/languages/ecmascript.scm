; What only the plain JavaScript grammar has.
(class_declaration name: (identifier) @name) @definition.class
(field_definition
  property: [(property_identifier) (private_property_identifier)] @name
  value: [(arrow_function) (function_expression)]) @definition.method
